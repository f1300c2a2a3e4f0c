"""What Berth can do, computed from its tests: `python tools/capabilities.py` writes `docs/capabilities.md`.

A capability is shown when every one of its claims names at least one test. A claim without a test is "not yet", whatever the
code may do; a claim that names a test which does not exist fails the tests. The numbers are stable names of capabilities; gaps
between them are capabilities that nothing claims yet.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "capabilities.md"


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing that users know under a name. `claims` maps what must hold to `file::test`, below `tests/`."""

    number: int | str
    name: str
    claims: Mapping[str, tuple[str, ...]]


CAPABILITIES = (
    Capability(
        9,
        "Jobs on the local machine",
        {
            "A job passes through every state to its end": ("engines/test_first_job.py::test_it_passes_through_every_state",),
            "A stop ends the whole tree of processes, also children that left it": (
                "contract/engines/test_local_engine.py::test_a_stop_kills_children_that_left_tree_and_session",
            ),
            "GPUs are leased exclusively": (
                "contract/engines/test_local_engine.py::test_simulated_gpus_are_leased_exclusively_and_labelled",
                "unit/engines_local/test_leases.py::test_whole_devices_are_exclusive_and_all_or_none",
            ),
            "After a crash of the platform the job goes on, once, and its log is whole": (
                "engines/test_survival.py::test_a_killed_platform_takes_up_its_running_job_and_its_log",
                "contract/engines/test_local_engine.py::test_many_workers_at_once_start_an_attempt_once",
            ),
        },
    ),
    Capability(
        19,
        "Priorities by role, and approval of more",
        {
            "Each role has a highest priority per tenant; more is refused with the way to ask for it": (
                "api/jobs/test_order.py::test_a_member_submits_up_to_normal_and_is_told_how_to_ask_for_more",
                "api/jobs/test_order.py::test_a_change_of_a_waiting_job_is_held_to_the_grant_and_lowering_is_free",
            ),
            "Somebody else approves, up to what they may use themselves; of two who decide one does": (
                "api/jobs/test_order.py::test_nobody_decides_a_request_of_their_own_or_above_their_own_grant",
                "services/jobs/test_order_races.py::test_of_many_managers_one_decides",
            ),
            "A request ends by itself, and never together with an approval": (
                "services/jobs/test_order_races.py::test_an_approval_holds_or_the_request_is_over_but_never_both",
            ),
            "On the running platform an approved job starts before the others": (
                "engines/test_order.py::test_an_approved_job_starts_at_once_and_a_moved_one_before_its_sibling",
            ),
            "One's own waiting jobs are put in another order, and nobody else ever has more of them in front": (
                "property/jobs/test_moving_properties.py::test_nobody_else_ever_has_more_of_them_in_front",
                "api/jobs/test_order.py::test_a_member_puts_their_own_jobs_in_order_and_nobody_else_comes_later",
            ),
        },
    ),
    Capability(
        18,
        "Gangs, whole or not at all",
        {
            "Four gangs of four on twelve cards: three run, the fourth holds none, also under another leader": (
                "services/jobs/test_sharing.py::test_of_four_gangs_of_four_on_twelve_cards_three_run_and_the_fourth_holds_none",
            ),
            "An elastic gang gets as many tasks as there is room for, and is charged for these": (
                "services/jobs/test_sharing.py::test_an_elastic_gang_gets_as_many_tasks_as_there_is_room_for",
                "services/jobs/test_sharing.py::test_an_elastic_job_is_charged_for_what_it_had",
            ),
        },
    ),
    Capability(
        20,
        "Urgent before ordinary",
        {
            "In one queue higher priority takes the room of lower, which waits again": (
                "services/jobs/test_sharing.py::test_higher_priority_of_one_queue_takes_the_room_of_lower",
            ),
            "Nobody takes back what another deserves": (
                "services/jobs/test_sharing.py::test_nobody_takes_back_what_another_deserves",
            ),
            "Whoever has just begun is left alone, and who waits for it is told until when": (
                "services/jobs/test_sharing.py::test_work_that_has_just_begun_is_not_evicted_and_who_waits_is_told_until_when",
            ),
            "A platform that dies in an eviction starts the one and brings the other back": (
                "faults/test_crash_points.py"
                "::test_after_a_crash_in_an_eviction_whoever_was_to_start_starts_and_the_other_goes_on_later",
            ),
        },
    ),
    Capability(
        21,
        "Borrowing, and giving back",
        {
            "What is borrowed is given back on demand, and costs the victim no retry": (
                "services/jobs/test_sharing.py::test_what_is_borrowed_is_given_back_on_demand_and_costs_the_victim_no_retry",
            ),
            "A new leader still knows whose the room is that is being cleared": (
                "services/jobs/test_sharing.py::test_a_new_leader_still_knows_whose_the_room_is_that_is_being_cleared",
            ),
            "A guarantee is kept idle for its owner, and others are told": (
                "services/jobs/test_sharing.py::test_a_guarantee_is_kept_idle_for_its_owner_and_others_are_told",
            ),
            "Of two that borrow the one with the smaller part gets room, and the other reads why": (
                "services/jobs/test_moving.py"
                "::test_of_two_that_borrow_the_one_with_the_smaller_part_gets_room_and_the_other_reads_why",
            ),
        },
    ),
    Capability(
        22,
        "Promises along the tree of queues",
        {
            "Guarantee, deserved amount, ceiling and weight per pool and resource; sums hold after any edit": (
                "property/quota/test_limits.py::test_children_are_given_at_most_what_their_parent_has",
                "api/tenants/test_quota.py::test_every_break_of_the_tree_is_told_at_the_change_that_makes_it",
            ),
            "What is unused of a guarantee can always be taken, and is never lent": (
                "property/quota/test_shares.py::test_the_unused_part_of_a_guarantee_can_always_be_taken",
            ),
            "After limits changed, a guarantee is free or held by work that may be taken back": (
                "property/quota/test_shares.py"
                "::test_after_limits_changed_a_guarantee_is_free_or_held_by_work_that_may_be_taken_back",
            ),
            "A whole tree is edited at once, tried first, with an audit entry": (
                "api/tenants/test_quota.py::test_an_edit_changes_many_queues_at_once_and_leaves_an_audit_entry",
                "api/tenants/test_quota.py::test_a_dry_run_says_who_would_hold_too_much_and_changes_nothing",
            ),
            "An edit waits for its time, is checked again then, and can be cancelled": (
                "api/tenants/test_quota.py::test_an_edit_with_a_later_time_waits_for_it_and_is_made_by_the_sweep",
                "api/tenants/test_quota.py::test_an_edit_that_no_longer_fits_when_its_time_comes_is_refused_and_says_why",
                "api/tenants/test_quota.py::test_a_planned_edit_is_cancelled_once",
            ),
        },
    ),
    Capability(
        23,
        "Bookings",
        {
            "GPUs of a pool are booked for a window; an overlap is refused with the others, whose owners only some may see": (
                "api/tenants/test_bookings.py"
                "::test_an_overlap_is_refused_with_the_other_bookings_and_owners_only_for_those_who_see_them",
                "property/quota/test_bookings.py::test_what_was_let_in_never_adds_up_to_more_than_the_pool_has",
            ),
            "What nobody comes for is given back": (
                "api/tenants/test_bookings.py::test_nobody_comes_and_the_booking_is_let_go_after_the_grace",
                "engines/test_order.py::test_a_booking_that_nobody_uses_is_released_and_told",
            ),
            "Admission keeps what is booked, and its owner starts at once": (
                "services/jobs/test_sharing.py::test_a_booking_is_cleared_in_time_and_its_owner_starts_at_once",
            ),
        },
    ),
    Capability(
        24,
        "Caps on users and tenants, and time limits",
        {
            "A cap on GPUs holds, and is told with its numbers": (
                "services/jobs/test_sharing.py::test_a_cap_on_one_user_holds_and_is_told_with_its_numbers",
            ),
            "Fifty submissions at once and 200 admissions by several schedulers that all believe to lead never pass a cap": (
                "services/jobs/test_cap_races.py::test_fifty_parallel_submissions_with_two_schedulers_never_pass_a_cap",
                "services/jobs/test_cap_races.py::test_two_hundred_admissions_by_many_schedulers_never_pass_a_cap_on_a_user",
                "services/jobs/test_cap_races.py::test_caps_that_change_while_many_admit_hold_from_then_on",
            ),
            "Whoever runs out of time is told before, once, and then stopped": (
                "services/jobs/test_life.py::test_who_runs_out_of_time_is_told_once_before_the_stop",
                "services/jobs/test_life.py::test_max_runtime_stops_a_job_and_says_so",
            ),
            "Jobs of a queue run for so long only, as whoever owns the queue above says": (
                "api/tenants/test_quota.py::test_the_time_of_jobs_is_limited_by_whoever_owns_the_queue_above",
            ),
        },
    ),
    Capability(
        25,
        "So many containers and no more",
        {
            "A user and a tenant have so many containers at most, also under races": (
                "services/jobs/test_cap_races.py::test_admissions_of_many_schedulers_never_pass_what_a_tenant_may_have_in_all",
                "services/jobs/test_cap_races.py::test_two_hundred_admissions_by_many_schedulers_never_pass_a_cap_on_a_user",
            ),
            "More than may ever be is refused at once, with every cap and the way out; who waits for one is told the numbers": (
                "api/jobs/test_caps.py::test_more_than_a_user_or_a_tenant_may_ever_hold_is_refused_with_every_cap_and_the_way_out",
                "api/jobs/test_caps.py::test_a_job_that_waits_for_its_tenants_cap_says_so_with_its_numbers",
            ),
        },
    ),
    Capability(
        26,
        "Tenants kept apart",
        {
            "Every operation against every kind of caller, own and foreign objects": (
                "security/matrix/test_http_matrix.py::test_every_operation_has_an_expectation_and_every_expectation_an_operation",
                "security/matrix/test_http_matrix.py::test_nobody_gets_an_answer_that_is_not_theirs",
            ),
            "The same for live connections": (
                "security/matrix/test_websocket_matrix.py::test_a_caller_hears_its_own_tenant_and_no_other_exists",
            ),
            "A running job reads neither the database nor another tenant's files": (
                "security/isolation/test_a_job_that_tries.py::test_the_database_and_the_key_are_closed_to_jobs",
                "security/isolation/test_a_job_that_tries.py::test_another_tenants_working_directory_and_logs_are_closed",
            ),
            "What another tenant has cannot be named in a query, cursor or body, nor by a field of the server's": (
                "security/matrix/test_queries.py::test_what_another_tenant_has_cannot_be_named_in_a_query",
                "security/matrix/test_http_matrix.py::test_an_id_of_another_tenant_in_the_body_does_not_exist",
                "security/matrix/test_writes.py::test_a_field_that_belongs_to_the_server_is_refused_by_name",
            ),
            "A job that attacks the platform's servers, port, launcher and processes is refused": (
                "security/live/test_a_job_that_attacks.py::test_a_job_is_refused_everything",
                "security/live/test_a_job_that_attacks.py::test_so_is_its_user_outside_the_sandbox",
            ),
            "Secrets planted everywhere are found nowhere": (
                "security/live/test_canaries.py::test_nothing_that_was_planted_is_found_anywhere",
            ),
            "A flood of requests from one tenant leaves the others served": (
                "security/limits/test_requests_of_a_tenant.py::test_other_tenants_are_served_meanwhile_and_operators_get_in",
            ),
        },
    ),
    Capability(
        27,
        "Many tenants, one cluster",
        {
            "Ten thousand jobs of one tenant keep another's from starting no longer than until something ends": (
                "services/jobs/test_noisy_neighbour.py::test_ten_thousand_jobs_of_one_tenant_do_not_keep_another_waiting",
            ),
            "A pass for a neighbour asks the database as much however many others wait": (
                "services/jobs/test_noisy_neighbour.py::"
                "test_a_pass_that_admits_a_neighbour_asks_the_database_as_much_however_many_others_wait",
            ),
        },
    ),
    Capability(
        29,
        "Small and large asks beside each other",
        {
            "How well a pool is packed for what it usually gets is told": (
                "api/clusters/test_pools.py::test_a_pool_says_how_fragmented_it_is_and_what_could_start_and_keeps_the_history",
            ),
            "Machines are chosen so that idle GPUs stay usable for what the pool usually gets": (
                "services/jobs/test_pool_measures.py::"
                "test_the_mix_is_in_the_rules_by_which_machines_are_chosen_and_in_the_file_of_a_state",
                "unit/scheduling/test_placing.py::test_the_gradient_keeps_whole_machines_for_the_large_tasks_of_the_mix",
            ),
            "A small job moves so that a large one starts that fits in total but not in shape, and goes on at once": (
                "services/jobs/test_moving.py::test_a_small_job_moves_so_that_a_large_one_starts_and_goes_on_at_once",
                "property/scheduling/test_moving_properties.py"
                "::test_whoever_moves_goes_on_where_it_was_told_and_nobody_else_gets_that",
            ),
            "The plan is kept with the decisions, and who waits is told": (
                "services/jobs/test_moving.py::test_the_plan_is_kept_with_the_decisions",
                "services/jobs/test_moving.py::test_who_waits_for_the_move_is_told_why_its_room_is_being_cleared",
            ),
            "The plan is the fewest and cheapest moves": (
                "property/scheduling/test_defragment_properties.py"
                "::test_a_plan_is_the_fewest_and_cheapest_moves_and_holds_when_carried_out",
            ),
            "A new leader goes on with a move": ("services/jobs/test_moving.py::test_a_new_leader_goes_on_with_the_move",),
            "What runs on a guarantee is moved for nobody of another tenant": (
                "services/jobs/test_moving.py::test_what_runs_on_a_guarantee_is_moved_for_nobody_of_another_tenant",
            ),
        },
    ),
    Capability(
        31,
        "The shape of what is idle",
        {
            "Fragmentation by its definition, for a mix that is counted and not configured": (
                "property/scheduling/test_placing_properties.py::test_fragmentation_is_the_sum_of_its_definition",
                "services/jobs/test_pool_measures.py::"
                "test_a_pool_tells_what_could_start_in_it_now_and_how_fragmented_it_is_for_what_it_usually_gets",
            ),
            "The largest job that can start now, by GPU model, in the API and as metrics, with bounded history": (
                "api/clusters/test_pools.py::test_a_pool_says_how_fragmented_it_is_and_what_could_start_and_keeps_the_history",
                "services/jobs/test_pool_measures.py::test_the_history_of_a_pool_is_kept_with_the_telemetry",
            ),
        },
    ),
    Capability(
        32,
        "Limits of a running job",
        {
            "A task above its memory is ended and named out of memory, and only it": (
                "contract/engines/test_engine_contract.py::test_only_the_task_above_its_memory_ends_for_memory",
            ),
            "Limits of memory, processors and processes are control groups where there are any": (
                "unit/engines_local/test_cgroups.py::test_limits_of_version_2_are_written_in_its_units",
            ),
            "Whole GPUs belong to one task": (
                "unit/engines_local/test_leases.py::test_whole_devices_are_exclusive_and_all_or_none",
            ),
        },
    ),
    Capability(
        33,
        "Fair shares",
        {
            "Every queue reads what it was promised, wanted and got, and what is missing": (
                "property/ledger/test_fairness.py::test_who_holds_less_than_it_deserves_and_wants_it_has_a_shortfall",
                "property/ledger/test_fairness.py::test_deficits_of_siblings_cancel_out_and_fair_parts_add_up_to_what_all_got",
                "services/jobs/test_shares.py::test_a_tenant_reads_its_shares_and_nobody_elses",
                "client/test_cli_shares.py::test_shares_are_shown_in_hours_with_what_is_missing",
            ),
            "Tenants of weights 1, 2 and 3 that always want more get their part within 1 %, with asks of one size": (
                "property/scheduling/test_long_run_share.py"
                "::test_who_always_wants_more_gets_its_part_by_weight_within_one_percent",
            ),
            "What tenants deserve is delivered within 5 %, where gangs are small against it": (
                "property/scheduling/test_long_run_share.py"
                "::test_what_is_deserved_is_delivered_within_five_percent_where_gangs_are_small_against_it",
            ),
            "By weight alone, with gangs of many sizes": (),
        },
    ),
    Capability(
        39,
        "An ask against its wait and its cost",
        {
            "Before submitting: start and cost of the ask, and of half and a quarter of it": (
                "api/jobs/test_forecast.py::test_a_smaller_ask_starts_now_where_the_whole_has_to_wait",
                "api/jobs/test_forecast.py::test_an_ask_is_halved_by_tasks_then_gpus_then_cores",
                "client/test_cli_shares.py::test_a_dry_run_shows_start_and_cost_of_the_ask_and_of_smaller_ones",
            ),
            "What was forecast for each size comes true": (
                "api/jobs/test_forecast.py::test_what_was_forecast_for_each_size_comes_true",
            ),
            "In the portal, where a smaller one is taken by a click": (
                "browser/test_weighing.py::test_a_smaller_ask_is_shown_with_its_start_and_cost_and_taken_by_a_click",
            ),
        },
    ),
    Capability(
        66,
        "Own against rented",
        {
            "When owning pays, from the hours in the ledger, with every assumption said and changeable": (
                "api/tenants/test_ledger.py::test_break_even_rests_on_measured_hours_and_repeats_what_it_assumes",
                "property/ledger/test_budgets_and_break_even.py::test_a_busy_machine_pays_for_itself_and_an_idle_one_does_not",
            ),
            "Machines that are worn out are bought again, and use beyond them is rented": (
                "property/ledger/test_budgets_and_break_even.py"
                "::test_both_curves_only_rise_and_the_purchase_comes_again_when_worn_out",
                "property/ledger/test_budgets_and_break_even.py"
                "::test_use_beyond_what_the_machines_can_do_is_rented_in_both_cases",
            ),
        },
    ),
    Capability(
        69,
        "Accounts and bills",
        {
            "The time of all attempts is the time in the ledger, to the unit": (
                "services/jobs/test_ledger_of_jobs.py::test_the_time_of_all_attempts_is_the_time_in_the_ledger_to_the_unit",
            ),
            "Every use is a pair of postings that cancel out": (
                "property/ledger/test_ledger.py::test_postings_of_an_attempt_cancel_out_in_units_and_money_by_every_resource",
            ),
            "A new price never acts on the past; prices and closed months never change": (
                "services/tenants/test_ledger.py::test_a_new_price_changes_nothing_that_was_used_before",
                "services/tenants/test_ledger.py::test_a_price_and_a_statement_never_change",
            ),
            "A month is made again from the ledger, to the byte": (
                "services/tenants/test_ledger.py::test_a_month_is_closed_once_it_is_over_and_made_again_to_the_byte",
            ),
            "Budgets in money or GPU hours warn once, and keep new jobs waiting when they stop": (
                "services/jobs/test_ledger_of_jobs.py::test_a_budget_counts_what_runs_warns_once_and_refuses_when_it_is_spent",
            ),
            "Budgets in node hours count what is taken most of, running or ended": (
                "services/tenants/test_budgets.py::test_node_hours_are_those_of_what_is_taken_most_of_by_pool",
                "services/tenants/test_budgets.py::test_node_hours_of_what_has_ended_count_as_those_of_what_runs",
            ),
        },
    ),
    Capability(
        98,
        "Capacity that moves between tenants",
        {
            "What is borrowed goes back on demand, and by itself at a job's end": (
                "services/jobs/test_sharing.py::test_what_is_borrowed_is_given_back_on_demand_and_costs_the_victim_no_retry",
                "services/jobs/test_sharing.py::test_a_guarantee_is_kept_idle_for_its_owner_and_others_are_told",
            ),
            "What is guaranteed is never lent, and what is deserved can always be had": (
                "property/scheduling/test_flapping.py::test_what_is_guaranteed_is_never_lent_so_nothing_flaps_and_nobody_waits",
                "property/scheduling/test_core_properties.py"
                "::test_what_a_queue_was_promised_is_free_or_held_by_what_may_be_evicted_now",
            ),
            "A lender waits no longer than the grace for what it deserves, however often it comes and goes": (
                "property/scheduling/test_flapping.py::test_a_lender_waits_no_longer_than_the_grace_however_often_it_comes_and_goes",
                "unit/scheduling/test_core.py::test_a_queue_waits_no_longer_than_the_grace_for_machines_that_it_deserves",
            ),
            "With a least run time between queues it evicts no more often than that, and waits no longer": (
                "property/scheduling/test_flapping.py"
                "::test_a_lender_that_flaps_evicts_no_more_often_than_the_least_run_time_lets_it",
                "unit/scheduling/test_core.py::test_a_brake_stops_a_storm_of_evictions_until_the_window_is_over",
            ),
        },
    ),
    Capability(
        119,
        "Limits that tenants ask for",
        {
            "Asked for, approved by whoever may, in force from the time that was asked for, with one line in the audit": (
                "api/tenants/test_quota_requests.py::test_what_is_asked_for_is_set_by_whoever_approves_it",
                "api/tenants/test_quota_requests.py::test_an_approval_waits_for_its_time_and_breaks_nothing",
            ),
            "Whoever decides is told, and whoever asked of the answer, also when nobody decided in time": (
                "api/tenants/test_quota_requests.py::test_whoever_decides_hears_of_it_and_whoever_asked_of_the_end",
            ),
            "Of many who approve, one makes the edit": (
                "api/tenants/test_quota_requests.py::test_of_many_who_approve_one_makes_the_edit",
            ),
        },
    ),
    Capability(
        34,
        "The life cycle of a job",
        {
            "Phases have a cause and a length, and add up": (
                "engines/test_first_job.py::test_its_phases_follow_each_other_and_add_up_to_its_life",
                "api/jobs/test_jobs.py::test_the_phases_of_a_timeline_add_up_to_the_age",
            ),
            "Terminal states are final, also by hand": (
                "services/jobs/test_life.py::test_a_terminal_row_never_changes_its_state_even_by_hand",
            ),
        },
    ),
    Capability(
        35,
        "States and tries again",
        {
            "A failure is tried again up to its limit, then it stands": (
                "engines/test_kinds_of_work.py::test_a_failure_is_tried_again_after_a_wait_until_it_succeeds",
            ),
            "A crash at any step, of the whole or of one process, is gone on from, and nothing starts twice": (
                "faults/test_crash_points.py::test_after_a_crash_everything_is_done_once",
                "faults/test_crash_points_of_processes.py::test_whichever_process_dies_at_a_crash_point_everything_is_done_once",
            ),
            "A process that was paused with work in hand changes nothing when it wakes": (
                "faults/test_zombies.py::test_a_worker_that_wakes_after_another_one_started_its_job_starts_nothing",
                "faults/test_zombies.py::test_a_worker_that_wakes_after_its_stop_was_carried_out_changes_nothing",
                "services/reconciling/test_fencing.py::test_a_launch_whose_lease_passed_to_another_worker_changes_nothing_and_is_counted",
            ),
        },
    ),
    Capability(
        36,
        "Submission by command line, API and notebook",
        {
            "The same job through every door is stored as the same bytes": (
                "engines/test_four_doors.py::test_the_same_job_through_every_door_is_stored_as_the_same_bytes",
            ),
            "The notebook runs": ("client/test_live.py::test_the_notebook_of_the_first_job_runs",),
            "By web portal, by form and by file": (
                "browser/test_days.py::test_a_member_fills_in_the_form_and_sees_the_job_succeed",
                "browser/test_days.py::test_a_job_written_as_yaml_waits_says_why_runs_prints_stops_and_runs_again",
            ),
        },
    ),
    Capability(
        37,
        "The job file",
        {
            "All errors at once, each with its place": (
                "unit/jobs_spec/test_parse.py::test_all_errors_come_at_once_each_with_its_place",
                "unit/jobs_spec/test_parse.py::test_errors_of_a_yaml_text_carry_their_lines",
            ),
            "A published JSON Schema that says the same as the parser": (
                "unit/jobs_spec/test_forms.py::test_every_example_satisfies_schema_and_parser",
                "api/jobs/test_jobs.py::test_the_schema_of_job_files_is_public",
            ),
            "Import of OpenPAI job files": (
                "unit/conversion/test_openpai.py::test_the_command_that_is_made_runs",
                "unit/conversion/test_openpai.py::test_all_mistakes_come_at_once_with_their_lines",
                "api/jobs/test_convert.py::test_the_command_prints_a_job_file_and_what_was_lost",
            ),
        },
    ),
    Capability(
        38,
        "Refusals that help, and trying again",
        {
            "A refusal brings the edit that helps": (
                "unit/jobs_spec/test_parse.py::test_a_refused_value_brings_the_edit_that_helps",
                "api/jobs/test_jobs.py::test_a_job_larger_than_its_queue_is_refused_with_the_numbers",
            ),
            "A rerun shows the difference": (
                "api/jobs/test_jobs.py::test_a_rerun_repeats_the_spec_with_changes_and_shows_the_difference",
                "browser/test_days.py::test_a_job_written_as_yaml_waits_says_why_runs_prints_stops_and_runs_again",
            ),
            "Whoever stops a job may say why, and whoever sees the job reads it": (
                "api/jobs/test_jobs.py::test_the_reason_of_a_stop_is_told_with_the_job_and_its_events",
                "browser/test_first_steps.py::test_the_reason_of_a_stop_is_read_by_whoever_looks_at_the_job",
            ),
            "What to do about an end is told in English and Chinese": (
                "unit/jobs_lifecycle/test_reasons.py::test_an_end_says_what_to_do_in_chinese_wherever_it_does_in_english",
                "api/jobs/test_jobs.py::test_how_a_job_ended_and_what_kept_it_apart_are_told_in_the_language_of_the_reader",
            ),
        },
    ),
    Capability(
        40,
        "Clones",
        {
            "A clone keeps the spec and asks for name and secrets again": (
                "api/jobs/test_jobs.py::test_a_clone_takes_a_name_of_its_own_and_asks_for_secrets_again",
            ),
            "A terminal in a running task, by portal and command line, audited": (
                "engines/test_exec.py::test_a_person_types_sees_resizes_and_leaves",
                "engines/test_exec.py::test_the_audit_says_who_where_and_how_long_and_not_what",
            ),
        },
    ),
    Capability(
        53,
        "The web portal",
        {
            "Every page opens for an operator and a member, in both languages and schemes, and breaks no rule of WCAG 2.2 AA": (
                "browser/test_every_page.py::test_an_operator_opens_it",
                "browser/test_every_page.py::test_a_member_opens_it_in_chinese_and_in_the_dark",
            ),
            "A member's, a manager's and an operator's day by hand": (
                "browser/test_days.py::test_a_job_written_as_yaml_waits_says_why_runs_prints_stops_and_runs_again",
                "browser/test_days.py::test_a_manager_moves_quota_and_sees_the_wait_end",
                "browser/test_days.py::test_an_operator_drains_a_node_knowing_whom_it_touches",
            ),
            "Two tenants see nothing of each other": ("browser/test_days.py::test_two_tenants_see_nothing_of_each_other",),
            "No line of a log is missed or doubled over a break": (
                "browser/test_days.py::test_no_line_is_missed_or_doubled_over_a_break",
            ),
            "Everything from the keyboard": ("browser/test_signing_in.py::test_the_palette_and_the_keys_lead_everywhere",),
            "Users' text stays text": (
                "browser/test_hostile_text.py::test_five_hundred_texts_in_a_log_stay_text",
                "browser/test_hostile_text.py::test_names_titles_tags_and_errors_stay_text",
            ),
            "The first load is light": ("browser/test_weight.py::test_the_first_load_is_light",),
            "A strict policy, without inline script": (
                "api/controlplane/test_portal.py::test_every_page_is_the_same_document_under_a_strict_policy",
            ),
            "Times in the zone that one prefers, which is said": (
                "browser/test_first_steps.py::test_times_are_shown_in_the_zone_that_one_prefers",
            ),
            "Lists cost the same statements whatever they hold, and are found by indexes": (
                "api/jobs/test_lists.py::test_a_page_costs_the_same_statements_whatever_it_holds",
                "api/jobs/test_lists.py::test_times_bound_what_ended_by_its_end_along_the_index_of_that_order",
            ),
            "Quick with a million jobs (measured by `bench/`, not by a test)": (),
        },
    ),
    Capability(
        "sign-in",
        "Signing in",
        {
            "By name or address and password, with a session of one's own that can be ended": (
                "api/tenants/test_sessions.py::test_a_name_or_address_and_the_password_make_a_session",
                "api/tenants/test_sessions.py::test_one_session_ends_another_and_all_others",
                "browser/test_signing_in.py::test_a_revoked_session_is_out_within_seconds",
            ),
            "Guessing is locked, and finds out nobody": (
                "api/tenants/test_sessions.py::test_guessing_is_locked_for_a_moment",
                "api/tenants/test_sessions.py::test_nobody_unknown_is_found_out_by_the_time",
            ),
            "A second factor": (
                "api/tenants/test_second_factor.py::test_a_second_factor_is_set_up_and_asked_for",
                "api/tenants/test_second_factor.py::test_no_code_is_taken_twice",
                "api/tenants/test_second_factor.py::test_a_recovery_code_works_once",
            ),
            "By the organisation's own provider": (
                "api/tenants/test_oidc.py::test_alice_signs_in_at_a_provider_of_others",
                "api/tenants/test_oidc.py::test_a_claim_that_is_wrong_lets_nobody_in",
                "api/tenants/test_oidc.py::test_a_signature_that_is_wrong_lets_nobody_in",
            ),
            "A command line is approved in a browser": (
                "api/tenants/test_device_codes.py::test_a_command_line_gets_the_rights_of_whoever_approves",
            ),
            "No other page acts for somebody who is signed in": (
                "api/tenants/test_sessions.py::test_whatever_changes_anything_brings_the_value",
                "api/tenants/test_sessions.py::test_the_value_alone_does_not_do_from_another_origin",
            ),
        },
    ),
    Capability(
        107,
        "Job templates",
        {
            "A catalogue with parameters, filled in as data and checked like any job": (
                "api/jobs/test_templates.py::test_a_member_keeps_one_and_whoever_belongs_fills_it_in",
                "api/jobs/test_templates.py::test_what_is_wrong_is_told_at_once",
                "api/jobs/test_templates.py::test_the_shipped_ones_are_made_once_and_each_is_a_job",
            ),
            "A badge of its last test run, by portal, command line and API": (
                "api/jobs/test_templates.py::test_a_test_run_is_a_job_of_the_defaults_and_its_result_is_told_to_whoever_may_use_the_template",
                "api/jobs/test_templates.py::test_a_result_is_outdated_once_the_job_would_be_another_and_not_by_a_new_title",
                "api/jobs/test_templates_cli.py::test_a_template_is_tested_and_the_list_says_how_that_ended",
                "browser/test_first_steps.py::test_a_template_shows_how_its_test_run_ended",
            ),
        },
    ),
    Capability(
        110,
        "What an installation does without",
        {
            "A feature that is off is gone from portal and API, for the installation or a tenant": (
                "api/tenants/test_portal.py::test_a_feature_that_is_off_is_gone_for_everybody_and_comes_back",
                "api/tenants/test_portal.py::test_a_tenant_has_its_own_setting_and_those_below_inherit_it",
                "realtime/test_exec_socket.py::test_it_may_be_switched_off_for_a_tenant",
                "browser/test_first_steps.py::test_what_is_switched_off_is_no_page_and_shows_no_cost",
            ),
            "Every feature of the list is bound to operations, a socket or a page": (
                "api/tenants/test_features.py::test_every_feature_is_bound_to_operations_or_says_to_what_else",
                "api/tenants/test_features.py::test_the_operations_of_a_feature_that_is_off_are_gone_and_come_back",
                "api/tenants/test_features.py::test_every_feature_hides_its_pages_by_their_address_and_its_parts_of_others",
            ),
            "Without billing nothing says a cost": (
                "api/tenants/test_ledger.py::test_use_without_billing_says_what_was_used_and_no_cost",
                "api/jobs/test_forecast.py::test_a_tenant_without_billing_is_told_when_and_not_what_it_costs",
            ),
        },
    ),
    Capability(
        121,
        "Maintenance of machines",
        {
            "A window takes its machine, empties it and gives it back": (
                "api/jobs/test_maintenance.py::test_a_window_takes_its_machine_empties_it_and_gives_it_back",
            ),
            "Whom it touches is told before": ("browser/test_days.py::test_an_operator_drains_a_node_knowing_whom_it_touches",),
            "An announcement reaches a tenant and all below it": (
                "api/tenants/test_portal.py::test_an_announcement_reaches_those_below_its_tenant_and_nobody_beside_or_above",
            ),
        },
    ),
    Capability(
        41,
        "Logs and measurements while a job runs",
        {
            "Logs are resumed by offset without gap or repeat": (
                "contract/engines/test_engine_contract.py::test_output_goes_on_from_a_cursor_without_gap_or_repeat",
                "services/storage/test_logs.py::test_a_crash_between_bytes_and_rows_leaves_no_gap_and_no_double",
            ),
            "A gap is marked, never silent": (
                "services/storage/test_logs.py::test_missing_bytes_become_a_marker_never_silence",
                "services/clusters/test_series.py::test_a_missed_interval_is_a_gap_and_nothing_fills_it",
            ),
            "The log survives what ran the job": (
                "engines/test_first_job.py::test_the_engine_forgets_it_once_everything_is_in_the_store",
            ),
        },
    ),
    Capability(
        42,
        "Results",
        {
            "Outputs have size and SHA-256, and are downloaded": (
                "engines/test_first_job.py::test_its_result_comes_home_with_size_and_digest",
            ),
            "Past the quota files are left behind, and that is said": (
                "services/storage/test_artifacts.py::test_past_the_quota_files_are_left_behind_and_said",
            ),
        },
    ),
    Capability(
        56,
        "Roles",
        {
            "Viewer, member, manager and operator against every verb": (
                "services/tenants/test_access.py::test_a_role_allows_what_the_table_says_and_only_in_its_tenant",
                "services/tenants/test_access.py::test_operators_do_what_the_table_says_in_every_tenant",
                "security/matrix/test_http_matrix.py::test_the_matrix_covers_what_it_claims",
            ),
        },
    ),
    Capability(
        57,
        "Machines that fail",
        {
            "What a lost machine ended is tried again, and no retry of the user is spent": (
                "services/jobs/test_life.py::test_a_platform_failure_is_tried_again_and_paid_by_the_platform",
                "faults/test_processes.py::test_after_a_reboot_each_job_is_tried_once_more_and_nothing_of_before_is_signalled",
                "unit/jobs_lifecycle/test_retry.py::test_who_pays_is_named",
            ),
            "An eviction goes back to the queue and counts nowhere": (
                "unit/jobs_lifecycle/test_retry.py::test_an_eviction_goes_back_to_the_queue_without_being_paid",
            ),
            "A cordoned node takes nothing new, with the operator's words, until it is released": (
                "services/clusters/test_conditions.py::test_a_cordoned_node_takes_nothing_new_until_it_is_released",
                "unit/jobs_lifecycle/test_reasons.py::test_a_job_kept_out_by_a_cordon_shows_the_operators_words",
            ),
            "Signs of ill health cordon and drain a node by themselves, with evidence": (),
        },
    ),
    Capability(
        72,
        "Jobs without containers",
        {
            "The host's own programs run": ("engines/test_first_job.py::test_it_passes_through_every_state",),
            "Python environments are built and run": (
                "services/images/test_build_by_engine.py::test_an_image_is_built_as_its_tenant_and_jobs_run_in_it",
            ),
            "On Slurm": (),
        },
    ),
    Capability(
        74,
        "PyTorch",
        {
            "Ranks of N tasks with M GPUs, for both ways of starting": (
                "unit/frameworks/test_frameworks.py::test_pytorch_ranks_n_tasks_of_m_gpus_for_both_ways_of_starting",
            ),
            "Two real processes meet over gloo": (
                "engines/test_frameworks.py::test_pytorch_averages_gradients_over_two_processes",
            ),
        },
    ),
    Capability(
        75,
        "MPI",
        {
            "mpirun starts ranks in the other tasks, without ssh": (
                "unit/frameworks/test_frameworks.py::test_mpirun_starts_ranks_in_the_other_tasks_without_ssh",
            ),
            "The launcher's end decides": (
                "unit/frameworks/test_frameworks.py::test_the_launchers_end_is_the_end_of_its_command",
                "unit/jobs_lifecycle/test_completion.py::test_the_launcher_of_mpi_decides_unless_there_is_none",
            ),
        },
    ),
    Capability(
        58,
        "GPU models are data",
        {
            "A model that nobody had heard of makes a pool, is asked for and used as soon as a machine reports it": (
                "services/jobs/test_placement.py::"
                "test_a_gpu_model_that_nobody_had_heard_of_is_used_as_soon_as_a_machine_reports_it",
            ),
            "A pool whose machines were all exchanged or changed alike keeps its limits": (
                "services/clusters/test_grouping.py::test_a_pool_whose_nodes_all_grew_keeps_its_identity_and_takes_their_shape",
            ),
        },
    ),
    Capability(
        61,
        "Where machines stand, and fast networks",
        {
            "Gangs go to one machine, island, switch or rack, and the record tells hops and how many places": (
                "unit/scheduling/test_placing.py::"
                "test_a_gang_that_wants_to_be_near_goes_to_one_machine_then_one_island_switch_or_rack",
                "services/jobs/test_placement.py::"
                "test_a_placement_tells_over_how_many_machines_and_places_it_is_spread_and_how_far",
            ),
            "RDMA is asked for, placed where it is, and told to the engine; the local one hands its device files over": (
                "services/jobs/test_placement.py::"
                "test_a_job_that_asks_for_rdma_goes_to_machines_that_have_it_and_its_engine_is_told",
                "contract/engines/test_local_engine.py::"
                "test_adapters_for_remote_memory_are_handed_to_who_asks_for_them_and_to_nobody_else",
            ),
            "RDMA on a real adapter": (),
        },
    ),
    Capability(
        70,
        "A pool is a group of equal machines",
        {
            "A machine of another model, other cores or other memory is never in it": (
                "services/clusters/test_inventory.py::test_a_pool_never_holds_machines_of_another_shape",
                "services/clusters/test_grouping.py::test_nodes_of_another_size_get_a_pool_that_says_the_size",
                "services/clusters/test_grouping.py::test_simulated_gpus_never_share_a_pool_with_real_ones",
            ),
            "A pool says in which driver, kernel, system or architecture its machines differ": (
                "services/clusters/test_inventory.py::test_a_pool_tells_in_what_its_nodes_differ_until_they_are_alike_again",
            ),
        },
    ),
    Capability(
        71,
        "Cores that no other task runs on",
        {
            "A task has its cores alone until it has ended, also over a restart of the platform; it sees them itself": (
                "contract/engines/test_exclusive_cores.py::"
                "test_a_task_has_its_cores_alone_until_it_has_ended_whatever_becomes_of_the_platform",
            ),
            "Who shares cores leaves these, and comes back when they are free": (
                "contract/engines/test_exclusive_cores.py::"
                "test_who_runs_already_leaves_the_cores_and_comes_back_when_they_are_free",
            ),
            "What cannot be met is told with numbers, at submission and while it waits": (
                "api/jobs/test_jobs.py::test_a_dry_run_says_that_cores_of_its_own_are_not_to_be_had_and_half_ones_are_refused",
                "services/jobs/test_placement.py::"
                "test_who_wants_cores_of_its_own_goes_where_they_are_given_and_says_so_where_they_are_not",
            ),
        },
    ),
    Capability(
        85,
        "Tasks find each other",
        {
            "The environment contract is documented and is what is set": (
                "unit/frameworks/test_environment.py::test_the_document_is_the_contract",
                "unit/frameworks/test_environment.py::test_every_task_finds_exactly_the_variables_of_the_contract",
            ),
            "Addresses, ports and files are the same for all tasks": (
                "contract/engines/test_engine_contract.py::test_addresses_ports_and_files_are_filled_in_alike_for_all_tasks",
            ),
        },
    ),
    Capability(
        87,
        "Tasks near one another or apart",
        {
            "A job wishes its tasks near one another or apart, or insists on one rack": (
                "services/jobs/test_placement.py::test_tasks_go_as_near_or_apart_as_the_job_says",
                "services/jobs/test_placement.py::test_a_gang_that_insists_on_one_rack_waits_until_one_has_room_for_all",
            ),
            "What no rack could ever hold is told so": (
                "services/jobs/test_placement.py::test_a_gang_that_no_rack_could_ever_hold_says_so",
            ),
        },
    ),
    Capability(
        88,
        "Tasks that keep away from one another",
        {
            "Seven tasks that want to be apart are on seven machines, or on all there are": (
                "services/jobs/test_placement.py::"
                "test_seven_parallel_tasks_that_want_to_be_apart_are_on_as_many_machines_as_can_be",
                "property/scheduling/test_placing_properties.py::test_tasks_apart_are_on_as_many_machines_as_can_be",
            ),
        },
    ),
    Capability(
        89,
        "Every filter has its own reason",
        {
            "Each says how many machines it kept out, what is needed and the most that is left": (
                "unit/scheduling/test_placing.py::test_each_filter_says_how_many_machines_it_refused_and_what_they_have",
                "unit/scheduling/test_placing.py::test_the_first_filter_that_refuses_a_machine_is_blamed_for_it",
                "unit/scheduling/test_placing.py::test_no_more_devices_are_shared_than_the_pool_allows",
            ),
            "Each has words in both languages": ("unit/jobs_lifecycle/test_unmet.py::test_every_filter_has_words",),
        },
    ),
    Capability(
        90,
        "Which machines a job goes to",
        {
            "A job goes only to machines with the labels that it asks for, and says which are missing": (
                "services/jobs/test_placement.py::test_a_job_goes_only_to_machines_with_the_labels_that_it_asks_for",
                "services/jobs/test_placement.py::test_a_job_that_asks_for_a_label_that_no_machine_has_says_so",
            ),
            "Machines are kept for jobs that tolerate their taints, of the cluster or of an operator": (
                "services/jobs/test_placement.py::test_a_machine_with_a_taint_is_kept_for_jobs_that_tolerate_it",
                "services/jobs/test_placement.py::test_an_operator_taints_a_machine_and_takes_that_back",
            ),
            "Operators choose by which policy a pool is filled": (
                "services/jobs/test_placement.py::test_a_pool_is_filled_by_the_policy_that_an_operator_chose",
            ),
            "Parts of a GPU are lent where operators say so": (
                "engines/test_simulated_gpus.py::"
                "test_two_halves_get_one_device_where_the_pool_lends_parts_and_a_whole_one_the_other",
                "services/jobs/test_placement.py::test_no_more_gpus_are_shared_than_the_pool_allows",
            ),
            "Each placement keeps the table of its scores; the lowest part taken is preferred where a pool says so": (
                "unit/scheduling/test_placing.py::test_the_table_shows_the_winner_and_the_next_best_by_term",
                "unit/scheduling/test_placing.py::test_the_lowest_part_taken_is_preferred_where_the_pool_says_so",
            ),
            "A machine that has the image already is preferred": (
                "services/jobs/test_locality.py::test_work_goes_where_an_engine_says_that_its_image_is",
            ),
        },
    ),
    Capability(
        91,
        "Work goes where its data is",
        {
            "A machine where a volume was mounted before is preferred, and the table of scores says so": (
                "services/jobs/test_locality.py::test_work_goes_where_earlier_work_has_brought_its_data_and_the_table_says_so",
            ),
            "What a machine is known to hold is bounded, and the same for a scheduler that follows, one that loads, and a file": (
                "services/jobs/test_locality.py::test_what_a_node_is_known_to_hold_is_bounded_and_the_oldest_goes_first",
                "services/jobs/test_locality.py::"
                "test_a_scheduler_that_follows_and_one_that_loads_all_and_a_file_know_the_same_contents",
            ),
        },
    ),
    Capability(
        95,
        "Parts of a GPU, where they do no harm",
        {
            "A part is refused with its own reason until an operator lets the pool lend parts": (
                "services/jobs/test_placement.py::test_parts_of_a_gpu_are_lent_where_an_operator_says_so_and_two_halves_share_one",
            ),
            "No more GPUs are shared than the pool allows, and a part joins one that is shared already": (
                "services/jobs/test_placement.py::test_no_more_gpus_are_shared_than_the_pool_allows",
                "property/scheduling/test_placing_properties.py::test_no_more_devices_are_lent_in_parts_than_the_pool_allows",
                "unit/scheduling/test_placing.py::test_a_share_joins_a_device_that_is_shared_already_where_the_pool_lends_shares",
            ),
        },
    ),
    Capability(
        113,
        "Redis as a courier only",
        {
            "Killed, and started again with or without what it held: no job is lost": (
                "faults/test_redis.py::test_redis_that_is_killed_and_comes_back_loses_no_job",
            ),
            "Emptied at any moment: no job is lost": ("faults/test_redis.py::test_everything_in_redis_may_vanish_at_any_moment",),
            "Away altogether: jobs start, stop and end": (
                "faults/test_redis.py::test_jobs_run_to_their_end_while_there_is_no_redis",
            ),
            "Frozen: submissions are answered in time": (
                "faults/test_redis.py::test_submissions_are_answered_in_time_while_redis_is_frozen",
            ),
            "Messages lost, repeated, late: everything is done once": (
                "faults/test_messages.py::test_messages_that_come_two_to_five_times_and_late_start_and_stop_everything_once",
                "faults/test_messages.py::test_messages_that_are_lost_cost_time_and_no_job",
            ),
        },
    ),
    Capability(
        120,
        "Upgrades and restores without loss",
        {
            "A filled database of the release before moves forward under its running jobs, and back without a restore": (
                "upgrade/test_forward.py::test_a_filled_database_moves_forward_under_its_running_jobs_and_back_again",
            ),
            "Two releases at once on one database: jobs go through both, each runs once, no event is lost": (
                "upgrade/test_beside.py::test_jobs_go_through_both_releases_and_survive_the_end_of_either",
            ),
            "Tables move under load without a failed request": (
                "upgrade/test_under_load.py::test_tables_move_forward_under_load_and_behind_a_long_transaction",
            ),
            "New migrations only add": ("architecture/test_migrations.py::test_a_new_migration_only_adds",),
            "A backup is restored beside clusters that ran on: nothing is killed, nothing runs twice": (
                "engines/test_restore.py::test_a_restored_platform_finds_what_ran_on_and_runs_nothing_twice",
            ),
            "A damaged, foreign or newer backup changes nothing": (
                "services/backup/test_backup.py::test_a_damaged_file_is_refused_and_nothing_changes",
                "services/backup/test_backup.py::test_a_backup_of_a_newer_release_is_refused",
                "services/backup/test_backup.py::test_keys_that_would_open_nothing_are_refused",
            ),
        },
    ),
    Capability(
        60,
        "What hardware cost and what of it was wasted",
        {
            "Use is split by what became of it, by tenant, user, queue, pool and job": (
                "api/tenants/test_ledger.py::test_use_is_filtered_by_user_queue_pool_and_fate_and_what_is_not_seen_does_not_exist",
                "property/ledger/test_ledger.py::test_what_became_of_an_attempt_decides_where_its_time_stands",
            ),
            "It adds up to the unit": (
                "services/jobs/test_ledger_of_jobs.py::test_the_time_of_all_attempts_is_the_time_in_the_ledger_to_the_unit",
            ),
            "On the command line and in the portal": (
                "client/test_cli_costs.py::test_waste_is_shown_as_a_share_of_all",
                "browser/test_weighing.py::test_what_was_used_and_what_of_it_was_wasted_is_one_page",
            ),
            "Hours that were allocated against hours that a GPU was busy, by tenant, user, queue, pool and job": (
                "services/tenants/test_gpu_hours.py::test_hours_in_which_gpus_worked_stand_beside_hours_in_which_they_were_held",
                "services/tenants/test_gpu_hours.py::test_what_nobody_looked_at_is_no_idleness",
                "client/test_cli_costs.py::test_how_busy_gpus_were_is_shown_where_it_was_measured",
                "browser/test_weighing.py::test_hours_in_which_gpus_worked_stand_beside_hours_that_were_held",
            ),
        },
    ),
    Capability(
        93,
        "What each task's GPUs do",
        {
            "What a task uses is measured and kept, and a gap stays a gap": (
                "engines/test_telemetry.py::test_what_a_task_uses_is_measured_and_kept",
                "services/clusters/test_series.py::test_a_missed_interval_is_a_gap_and_nothing_fills_it",
                "api/clusters/test_node_metrics.py::test_series_of_a_node_and_its_gpus_have_units_and_null_for_gaps",
                "client/test_sdk.py::test_metrics_are_lists_with_gaps",
            ),
            "On a real GPU (tests run with simulated ones)": (),
        },
    ),
    Capability(
        122,
        "A first job in minutes",
        {
            "From an empty data directory to a finished job": ("engines/test_first_job.py::test_its_log_is_whole",),
            "A newcomer is led to a finished job in the browser, in less than five minutes": (
                "browser/test_first_steps.py::test_a_newcomer_is_led_to_a_finished_job_and_on",
            ),
            "A refusal links its rule": ("browser/test_first_steps.py::test_a_refusal_links_its_rule",),
            "Every error says what to do next": (
                "architecture/test_reference.py::test_every_error_code_has_a_meaning_a_next_step_and_a_chinese_title",
            ),
        },
    ),
    Capability(
        "6.1",
        "Why it waits, and what would start it",
        {
            "Every suggestion, applied to a copy of the state, starts the job": (
                "property/scheduling/test_explain_properties.py::test_whoever_waits_has_a_reason_and_every_suggestion_is_true",
            ),
        },
    ),
    Capability(
        "6.2",
        "When it starts",
        {
            "Expected by half and by nine in ten, and told how such words came true": (
                "services/jobs/test_promises.py::test_an_explanation_has_the_expected_start_and_how_far_to_trust_it",
                "services/jobs/test_promises.py::test_the_first_promise_stays_and_is_judged_by_the_start",
            ),
        },
    ),
    Capability(
        "6.3",
        "What if",
        {
            "A question is answered as a pass over the changed state would": (
                "property/scheduling/test_explain_properties.py::test_what_if_is_what_a_pass_over_the_changed_state_does",
            ),
        },
    ),
    Capability(
        "6.4",
        "Cost before, during and after",
        {
            "Before: the cost of an ask for as long as such jobs run": (
                "api/jobs/test_forecast.py::test_the_cost_is_that_of_the_time_it_is_thought_to_run",
            ),
            "During: what a job burns": (
                "services/jobs/test_ledger_of_jobs.py::test_a_job_shows_what_it_burns_and_what_its_attempts_cost",
            ),
            "After: who paid for what, for managers and members": (
                "api/tenants/test_ledger.py::test_a_manager_sees_what_all_cost_a_member_what_their_own_did",
            ),
            "Waste by what became of it, and what was held and not worked with": (
                "services/tenants/test_held.py::test_from_admission_to_the_cluster_is_held_and_not_charged",
                "services/tenants/test_held.py::test_of_a_booking_what_its_queue_did_not_use_is_held_for_nobody",
                "client/test_cli_costs.py::test_waste_is_shown_as_a_share_of_all",
            ),
            "GPUs that a job held and left idle": (
                "services/tenants/test_gpu_hours.py::test_hours_in_which_gpus_worked_stand_beside_hours_in_which_they_were_held",
            ),
        },
    ),
    Capability(
        "6.5",
        "Deterministic replay",
        {
            "An event log gives the same decision log in any process, to the byte": (
                "unit/scheduling/test_log.py::test_the_same_log_gives_the_same_bytes_in_any_process_and_in_any_order_of_listing",
                "unit/bench/test_golden.py::test_an_event_log_is_the_same_each_time_and_so_are_the_decisions",
            ),
            "Digests of what is decided on public traces are kept, and another one is told": (
                "unit/bench/test_golden.py::test_another_digest_than_the_golden_one_misses_the_level",
            ),
            "A past window is lived through again, under its own policy and another": (
                "services/jobs/test_windows.py::test_lived_through_again_under_its_own_policy_it_comes_out_as_it_was",
                "services/jobs/test_windows.py::test_the_commands_write_a_file_and_compare_two_policies",
            ),
        },
    ),
    Capability(
        "6.6",
        "Plans that come true or are refused",
        {
            "Submissions, edits of limits, moves and the emptying of a machine do what their dry run said, or nothing": (
                "api/jobs/test_plans.py::test_a_submission_is_stored_as_planned_or_not_at_all",
                "api/jobs/test_plans.py::test_a_batch_is_held_to_its_plan",
                "api/jobs/test_plans.py::test_an_edit_of_limits_is_made_only_if_the_same_jobs_start_wait_and_go",
                "api/jobs/test_plans.py::test_a_move_is_made_as_planned_or_not_at_all",
                "api/jobs/test_plans.py::test_a_machine_is_emptied_of_just_those_who_were_shown",
            ),
        },
    ),
    Capability(
        "6.7",
        "A record of every decision",
        {
            "Starts, claims, evictions and waits are kept with what they were weighed against": (
                "services/jobs/test_sharing.py::test_every_start_eviction_claim_and_wait_leaves_a_record",
            ),
        },
    ),
    Capability(
        "6.10",
        "A fairness contract",
        {
            "A statement of each tenant's week is signed, and made again from ledger and limits, to the byte": (
                "services/jobs/test_shares.py::test_a_week_is_closed_signed_and_made_again_to_the_byte",
                "property/ledger/test_fairness.py::test_a_statement_is_the_same_to_the_byte_in_any_order",
            ),
            "One that was changed is found, and the table refuses changes": (
                "services/jobs/test_shares.py::test_a_statement_that_was_tampered_with_is_found_and_the_table_refuses",
            ),
            "Who has the public key checks it without the server": (
                "client/test_cli_shares.py::test_a_kept_statement_that_was_changed_is_found_without_a_server",
                "client/test_cli_shares.py::test_signatures_are_judged_as_by_the_library",
            ),
        },
    ),
    Capability(
        "6.16",
        "A chaos drill",
        {
            "Processes, Redis and the database are broken under load; a report with figures says what held": (
                "faults/test_chaos.py::test_under_load_and_faults_every_promise_is_kept",
            ),
            "The seed repeats the faults": (
                "faults/test_chaos.py::test_the_same_seed_breaks_the_same_things_and_another_one_others",
            ),
            "Schedulers that all believe to lead never pass a ceiling": (
                "faults/test_leadership.py::test_schedulers_that_all_believe_to_lead_never_pass_a_ceiling",
            ),
            "Lost, doubled and reordered messages, and a stale view": (
                "faults/test_messages.py::test_messages_that_come_two_to_five_times_and_late_start_and_stop_everything_once",
                "faults/test_zombies.py::test_an_observer_that_wakes_with_an_old_view_moves_nothing_back",
            ),
            "A button in the portal": (),
        },
    ),
    Capability(
        "6.18",
        "A tenant escape self-test on the installation that runs",
        {
            "Two throw-away tenants, every operation from the one on the other, and nothing left behind": (
                "security/live/test_the_self_test.py::test_it_passes_and_leaves_nothing_behind",
                "services/controlplane/test_selftest.py::test_nothing_is_found_and_nothing_is_left",
                "services/controlplane/test_selftest.py::test_what_an_interrupted_run_left_is_removed_later",
            ),
            "A hole is found, and told by log, event and metric": (
                "services/controlplane/test_selftest.py::test_a_hole_is_found_and_told",
            ),
            "Every day, with a report for operators": (
                "services/controlplane/test_selftest.py::test_it_is_due_a_day_after_the_last_and_not_on_a_new_installation",
                "services/controlplane/test_selftest.py::test_operators_read_the_reports_and_nobody_else_does",
            ),
            "A page in the portal": ("browser/test_days.py::test_an_operator_reads_how_tenants_were_tried_against_each_other",),
        },
    ),
    Capability(
        "6.23",
        "Files of OpenPAI and Slurm",
        {
            "Each file of the corpus becomes a job, and each of its lines is carried over or explained": (
                "unit/conversion/test_corpus.py::test_a_file_becomes_this_job",
                "unit/conversion/test_corpus.py::test_every_line_of_slurm_has_a_note",
                "unit/conversion/test_corpus.py::test_every_key_of_openpai_has_a_note",
            ),
            "Any text ends as a job with notes or as a refusal that says why": (
                "property/jobs/test_conversion_properties.py::test_any_text_ends_well",
                "property/jobs/test_conversion_properties.py::test_a_damaged_file_ends_well",
            ),
            "What was made runs without the old system": (
                "unit/conversion/test_sbatch.py::test_the_command_that_is_made_runs",
                "browser/test_bringing.py::test_an_openpai_job_is_opened_explained_and_runs",
                "browser/test_bringing.py::test_a_script_for_slurm_is_dropped_explained_and_runs",
            ),
            "Values of secrets go nowhere": ("unit/conversion/test_corpus.py::test_no_secret_is_carried_over",),
        },
    ),
    Capability(
        "6.11",
        "A latest start for whoever waits",
        {
            "It is kept in every history of a small installation, also with preemption, reclaim and a booking": (
                "property/scheduling/test_latest_start.py::"
                "test_in_every_small_history_who_waits_starts_by_the_latest_start_that_it_was_told",
            ),
            "In random histories as well": (
                "property/scheduling/test_latest_start.py::test_in_random_histories_every_latest_start_is_kept",
            ),
            "Members are told it, with what it rests on": (
                "services/jobs/test_questions.py::test_the_latest_start_is_told_with_what_it_rests_on",
            ),
            "A planned start is kept by the next leader, and known to whoever asks": (
                "services/jobs/test_driver.py::test_a_booked_start_is_known_to_whoever_asks_and_kept_by_the_next_leader",
            ),
        },
    ),
)


@cache
def tests_of(file: str) -> frozenset[str]:
    """Names of the tests in a file below `tests/`; none if it is not there."""
    path = ROOT / "tests" / file
    if not path.is_file():
        return frozenset()
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    functions = (node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return frozenset(node.name for node in functions if node.name.startswith("test_"))


def exists(test: str) -> bool:
    file, _, name = test.partition("::")
    return name in tests_of(file)


def status(claims: Mapping[str, tuple[str, ...]]) -> str:
    """In words: shown, shown in part, not yet."""
    shown = [bool(tests) and all(exists(test) for test in tests) for tests in claims.values()]
    return "shown by tests" if all(shown) else "in part" if any(shown) else "not yet"


def page() -> str:
    """The whole page."""
    lines = [
        "# Capabilities",
        "",
        "What Berth can do today, claim by claim, with the tests that show it. This page is made by `tools/capabilities.py` from",
        "the tests that exist; a claim without a test is *not yet*, whatever the code may do. All of them run in `make test`.",
        "",
        "| # | capability | status |",
        "|---|---|---|",
    ]
    lines += [f"| {item.number} | [{item.name}](#{item.number}) | {status(item.claims)} |" for item in CAPABILITIES]
    for item in CAPABILITIES:
        lines += [
            "",
            f'<a id="{item.number}"></a>',
            "",
            f"## {item.number}. {item.name}",
            "",
            "| what must hold | shown by |",
            "|---|---|",
        ]
        for claim, tests in item.claims.items():
            shown = "<br>".join(f"`{test}`" for test in tests if exists(test))
            lines.append(f"| {claim} | {shown if tests and all(map(exists, tests)) else '*not yet*'} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
