"""Many rows in one statement: the public name of `activity.bulk`.

The outbox is the lowest app that writes rows by the thousand, and imports point down: the module lives there, and everything
from `reconciling` up imports it from here.
"""

from activity.bulk import BATCH_ROWS, Row, in_transaction, insert, number, read_for_key_share, statement_cursor, update

__all__ = ["BATCH_ROWS", "Row", "in_transaction", "insert", "number", "read_for_key_share", "statement_cursor", "update"]
