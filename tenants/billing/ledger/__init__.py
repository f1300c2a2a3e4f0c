"""The arithmetic of what was used and what it cost. Plain Python: no database, no clock, no setting; integers alone.

`prices` says what an hour costs when; `entries` turns an attempt's use into postings that balance, and into days; `statements`
sums a month up so that it recomputes to the byte; `budgets` says when to warn and when to stop; `breakeven` compares owning
machines with renting them.
"""
