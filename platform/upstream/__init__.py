"""Where frameworks are bent: every private hook of a library that Berth overrides or reaches into, one module per framework.

Nothing above imports a private name of Django, REST framework, drf-spectacular, Celery, kombu, uvicorn, psycopg or redis-py: it
asks here. Each module lists its hooks with the reason, what was gained and the test that fails when the library changes
(`HOOKS`); `docs/upstream-hooks.md` is made from these lists. No knowledge of Berth's apps belongs here, only the kernel's.
"""
