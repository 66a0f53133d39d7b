"""python -m cerebro_db.worker"""

from cerebro_db.worker.serve import main

main()
