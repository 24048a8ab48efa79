"""``python -m fairseq_odeformers`` is the command ``odeformers``.

Without arguments it prints the folder to give to ``--user-dir``.
"""

import sys

from odeformers import main, user_dir

if sys.argv[1:]:
    main()
else:
    print(user_dir())
