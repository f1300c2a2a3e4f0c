"""Reads for the apps above: people, queues and use. They never write; their number of queries does not depend on the rows."""

from tenants.billing.usage import UsageRow as UsageRow
from tenants.billing.usage import usage_report as usage_report
from tenants.capacity.quota.tree import QueueFacts as QueueFacts
from tenants.capacity.selectors import default_queue as default_queue
from tenants.capacity.selectors import find_queue_ids as find_queue_ids
from tenants.capacity.selectors import held_of_pools as held_of_pools
from tenants.capacity.selectors import queue_names as queue_names
from tenants.capacity.selectors import queue_path as queue_path
from tenants.capacity.selectors import queue_tree as queue_tree
from tenants.capacity.selectors import queues_below as queues_below
from tenants.capacity.selectors import readable_queue_names as readable_queue_names
from tenants.capacity.selectors import resolve_queue as resolve_queue
from tenants.identity.models import Tenant as Tenant
from tenants.identity.selectors import TenantFacts as TenantFacts
from tenants.identity.selectors import TenantOfActor as TenantOfActor
from tenants.identity.selectors import find_tenant as find_tenant
from tenants.identity.selectors import find_user_id as find_user_id
from tenants.identity.selectors import find_visible_user as find_visible_user
from tenants.identity.selectors import get_tenant as get_tenant
from tenants.identity.selectors import people_in as people_in
from tenants.identity.selectors import secret_names as secret_names
from tenants.identity.selectors import tenant_facts as tenant_facts
from tenants.identity.selectors import tenants_below as tenants_below
from tenants.identity.selectors import tenants_of as tenants_of
from tenants.identity.selectors import user_names as user_names
