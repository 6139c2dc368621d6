"""The table of `tests/tiers.py`: which tests a landing runs, and the sources whose change runs further ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple


class Capability(NamedTuple):
    """A file of tests on the stage: those that a landing runs, and the sources whose change runs the whole file."""

    landing: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


ALL = ("*",)
LIBRARY = "layers/runtime/python/stepline/"

STAGE: Mapping[str, Capability] = {
    "test_approval.py": Capability(
        ("test_a_stop_answers_for_the_person",),
        ("loop/approvals/",),
    ),
    "test_bundle.py": Capability(
        (
            "test_its_hooks_its_tool_its_skill_and_its_document_answer",
            "test_a_misspelt_one_is_refused_before_anything_is_deployed",
            "test_the_logs_are_followed_while_a_turn_runs",
        ),
        ("bundle/", "loop/hooks/", "local/knowledge/"),
    ),
    "test_chat.py": Capability(ALL, ("local/terminal/",)),
    "test_client.py": Capability(ALL, ("local/client/",)),
    "test_context.py": Capability(
        ("test_a_long_conversation_stays_within_a_small_context_and_its_third_turn_is_read_word_for_word",),
        ("context/",),
    ),
    "test_deletion.py": Capability(
        ("test_a_conversation_that_is_deleted_while_a_turn_runs_leaves_its_tombstone",),
        ("ingress/delete.py", "ingress/erase_user.py", "ports/tenancy/"),
    ),
    "test_deploy.py": Capability(ALL, ("local/cloud/", "local/stage/")),
    "test_document.py": Capability(
        ("test_a_document_is_made_of_search_results_and_offered_with_its_sources[process-report.pdf]",),
        ("tools/documents/", "/exec_task/executor/documents/"),
    ),
    "test_event.py": Capability(
        (
            "test_a_form_opens_a_turn_and_the_agent_reads_its_fields",
            "test_an_invalid_event_is_refused_and_not_stored",
            "test_a_service_reaches_neither_foreign_nor_absent_conversations",
        ),
        ("model/wire/", "ingress/"),
    ),
    "test_execution.py": Capability(
        (
            "test_a_table_of_an_earlier_turn_becomes_monthly_totals_and_a_chart[docker]",
            "test_a_failed_program_is_reported_and_not_repeated",
            "test_a_worker_killed_while_a_program_runs_costs_the_program_and_no_more[process]",
        ),
        ("programs/", "loop/programs/", "adapters/process/", "adapters/docker/", "/exec_task/"),
    ),
    "test_door_responses.py": Capability(
        ("test_a_stream_that_is_cut_continues_after_its_last_number",),
        ("/web/packages/serve/responses/",),
    ),
    "test_door_mcp.py": Capability(
        ("test_the_published_client_asks_continues_and_reads_the_log",),
        ("/web/packages/serve/mcp/", "adapters/mcp/"),
    ),
    "test_door_server.py": Capability(
        ("test_a_chat_that_is_cut_in_mid_stream_is_replayed_to_the_recorded_answer",),
        ("/web/packages/serve/", "local/command/door/"),
    ),
    "test_each_wire.py": Capability(
        ("test_a_turn_uses_tools_and_answers[chat]",),
        ("adapters/chat/", "adapters/converse/", "adapters/provider/"),
    ),
    "test_fanout.py": Capability(
        ("test_a_worker_killed_between_two_actions_repeats_none",),
        ("protocol/decision/", "loop/act.py"),
    ),
    "test_feedback_service.py": Capability(
        ("test_feedback_is_sent_read_counted_and_withdrawn",),
        ("ingress/feedback.py", "api/feedback_endpoints.py"),
    ),
    "test_forked_conversation.py": Capability(ALL, ("ingress/fork.py", "api/time_travel/")),
    "test_generation.py": Capability(
        (
            "test_a_forbidden_beginning_costs_one_notice_and_one_retry",
            "test_an_answer_cites_a_search_result_and_the_terminal_shows_the_link",
        ),
        ("protocol/",),
    ),
    "test_guard.py": Capability(
        (
            "test_a_preflight_of_a_foreign_page_is_refused_and_shares_nothing",
            "test_a_foreign_name_for_this_machine_is_refused_before_anything_else",
            "test_no_call_passes_without_the_key_of_the_stage",
            "test_a_signed_address_is_enough_for_its_object_and_for_nothing_else",
        ),
        ("local/guard/",),
    ),
    "test_guide.py": Capability(
        ("test_a_page_runs_on_the_stage_as_it_is_written[client]",),
        ("local/template/", "local/command/new.py"),
    ),
    "test_hosting.py": Capability(ALL, ("delivery/",)),
    "test_http_service.py": Capability(
        (
            "test_the_description_that_is_served_is_the_one_of_the_pages",
            "test_a_conversation_is_listed_under_both_addresses",
            "test_turns_are_fetched_with_their_texts_in_both_forms",
            "test_pages_of_events_meet_and_are_the_frames_that_a_socket_replays",
            "test_a_new_title_is_sent_on_the_socket_and_found_in_the_list",
            "test_the_read_mark_is_sent_to_every_device_and_never_decreases",
            "test_the_request_of_every_round_is_the_one_that_was_on_the_wire",
            "test_the_decision_the_log_and_the_cost_of_a_round_are_served",
            "test_a_foreign_resource_is_answered_like_an_absent_one",
            "test_an_expired_token_is_refused_and_an_address_outside_is_not_there",
        ),
        ("api/",),
    ),
    "test_iam.py": Capability((), ("/stepline_cdk/access.py",)),
    "test_proof.py": Capability((), ("local/proof/",)),
    "test_queued_turn.py": Capability(ALL, ("ingress/enqueue.py", "delivery/stage_queue.py")),
    "test_ingress.py": Capability(
        (
            "test_a_foreign_conversation_is_not_found_by_any_request",
            "test_a_bad_message_gets_one_error_with_a_code_and_the_socket_stays_usable[hello-bad_json]",
            "test_a_message_in_fragments_arrives_whole",
            "test_the_same_message_twice_is_one",
        ),
        ("ingress/",),
    ),
    "test_journal_turn.py": Capability(
        ("test_a_turn_sees_its_requested_result_for_one_round_and_answers_last",),
        ("context/journal/",),
    ),
    "test_kill.py": Capability((), ("log/journal.py", "log/fence.py")),
    "test_knowledge.py": Capability(
        ("test_a_person_sees_the_path_under_the_answer",),
        ("local/knowledge/", "/bundles/docs/"),
    ),
    "test_limits.py": Capability(
        ("test_the_kill_switch_ends_a_turn_that_runs_before_its_next_round",),
        ("ports/tenancy/", "model/tenancy/"),
    ),
    "test_live.py": Capability(
        (
            "test_a_steer_cuts_the_stream_off_and_the_turn_comes_to_an_end",
            "test_a_stop_ends_a_stream_at_once_and_keeps_the_shown_text",
            "test_a_running_programs_output_is_shown_also_to_a_late_device[process]",
            "test_a_stop_between_tools_leaves_the_rest_undone",
            "test_a_steer_that_comes_to_no_turn_is_handed_back[Be brief.]",
        ),
        ("loop/steer.py", "model/wire/live_event.py"),
    ),
    "test_moving_in.py": Capability(
        ("test_an_imported_conversation_has_its_files_and_continues",), ("log/importing/",)
    ),
    "test_posted_files.py": Capability(
        (
            "test_a_file_is_uploaded_checked_stored_and_reported",
            "test_a_file_that_is_refused_leaves_only_its_reasons",
            "test_the_bucket_takes_no_byte_more_and_the_slot_stays_open",
            "test_another_content_than_was_stated_is_refused",
            "test_no_other_user_uploads_to_a_conversation_or_reads_its_uploads",
        ),
        ("preflight/", "adapters/upload/"),
    ),
    "test_program.py": Capability(ALL),
    "test_project_history.py": Capability(ALL, ("timeline/workspace.py", "log/versions.py")),
    "test_recovery.py": Capability(
        (
            "test_a_decide_worker_killed_in_mid_stream_costs_no_more_than_time",
            "test_a_model_that_fails_once_still_answers_once[overloaded]",
        ),
        ("loop/sweep.py",),
    ),
    "test_release_mix.py": Capability(
        (), ("model/batch.py", "model/step.py", "model/entry.py", "loop/graph.py", "adapters/aws/log.py")
    ),
    "test_remembering.py": Capability(
        ("test_another_conversation_is_found_by_other_words_and_read",),
        ("adapters/embedded/", "model/memory_row.py"),
    ),
    "test_replayed_stage.py": Capability((), ("replay/", "local/command/content/")),
    "test_reports.py": Capability(ALL, ("delivery/call_reports.py",)),
    "test_restore.py": Capability((), ("local/cloud/",)),
    "test_resume.py": Capability(
        ("test_killing_the_client_in_mid_turn_and_resuming_yields_exactly_the_rest[<lambda>]",),
        ("delivery/resume.py",),
    ),
    "test_secrets.py": Capability(
        ("test_the_stage_answers_as_a_process_does",),
        (
            "bundle/descriptor_set.py",
            "adapters/aws/secret.py",
            "local/secret_desk.py",
            "local/stage/local_descriptor.py",
        ),
    ),
    "test_sent_file.py": Capability(
        ("test_a_picture_from_the_command_line_is_in_the_request_and_the_inspector_shows_it",),
        ("inspection/", "context/media.py"),
    ),
    "test_stage_killed.py": Capability((), ("local/stage/",)),
    "test_storm.py": Capability((), ("delivery/",)),
    "test_takeover.py": Capability(
        ("test_two_messages_at_once_from_two_devices_are_both_answered",),
        ("loop/sweep.py", "ingress/admit.py"),
    ),
    "test_stream_service.py": Capability(
        ("test_a_reader_catches_up_and_waits_while_a_turn_streams_and_loses_nothing",),
        ("api/doors/", "delivery/stream_page.py", "delivery/stream_offset.py"),
    ),
    "test_task.py": Capability(
        ("test_a_failed_program_in_a_task_is_reported_in_the_same_words",),
        ("loop/programs/", "/exec_task/"),
    ),
    # It deploys a bundle twice.
    "test_torture_column.py": Capability(
        (), ("/bench/torture/scenario.py", "/bench/torture/subjects/stepline_subject.py")
    ),
    "test_trace.py": Capability(
        ("test_a_turn_with_a_lost_execution_is_one_trace_without_text",),
        ("loop/tracing/", "adapters/tracing/"),
    ),
    "test_turn.py": Capability(ALL, ()),
    "test_turn_receipt.py": Capability(ALL, ("ports/tracing/", "inspection/")),
    "test_typed_bundle.py": Capability(
        ALL, ("tools/typed/", "loop/programs/serve_call.py", "protocol/decision/result_value.py")
    ),
    "test_up.py": Capability((), ("local/stage/",)),
    "page/test_page_access.py": Capability(
        (
            "test_axe_finds_nothing_serious_before_the_first_message_and_signed_out",
            "test_a_page_at_320_pixels_and_at_twice_the_size_is_read_without_scrolling_sideways",
        ),
    ),
    "page/test_page_ag_ui.py": Capability(
        ("test_a_reload_and_a_second_tab_in_mid_answer_lose_and_repeat_nothing",),
        ("/examples/copilot/", "/web/packages/ag-ui/", "/web/src/door/"),
    ),
    "page/test_page_approval.py": Capability(("test_an_edited_call_runs_with_other_parameters",)),
    "page/test_page_branches.py": Capability(
        ("test_the_second_of_two_messages_is_edited_and_both_branches_go_on",),
        ("/web/src/ui/branches/", "/web/src/thread/branches.ts", "api/time_travel/"),
    ),
    "page/test_page_bundle.py": Capability(
        ("test_a_bundles_page_reads_the_list_by_its_port_and_reaches_nothing_else",)
    ),
    "page/test_page_deletion.py": Capability(
        ("test_a_conversation_is_deleted_from_its_menu_and_another_tab_hears_of_it",)
    ),
    "page/test_page_firefox.py": Capability(),
    "page/test_page_foreign.py": Capability(
        (
            "test_the_policy_of_every_route_lets_nothing_in_that_is_not_the_pages_own[/]",
            "test_the_frame_of_artifacts_may_have_styles_within_and_nothing_else",
            "test_a_foreign_site_reads_and_writes_nothing_of_a_signed_in_user",
        ),
        ("/web/headers.json", "local/page/"),
    ),
    "page/test_page_hostile.py": Capability(
        ("test_tags_handlers_and_links_in_an_answer_do_nothing_and_are_read_as_text",),
    ),
    "page/test_page_inspector.py": Capability(
        (
            "test_the_figures_of_each_round_are_those_of_the_usage_events",
            "test_a_request_is_shown_byte_for_byte_with_the_marks_of_its_cache",
            "test_two_requests_are_compared_and_the_first_difference_is_marked",
            "test_a_reply_and_the_log_beside_it_are_those_that_are_recorded",
            "test_t_leads_to_the_same_round_of_the_chat_and_back",
            "test_a_long_conversation_opens_at_the_top_with_one_scrollbar_a_panel[25]",
        ),
        ("inspection/",),
    ),
    "page/test_page_keyboard.py": Capability(("test_a_turn_is_sent_added_to_redirected_and_stopped",)),
    "page/test_page_limits.py": Capability(("test_the_remainder_is_below_the_field_and_falls_with_a_turn",)),
    "page/test_page_link.py": Capability(
        ("test_a_connection_that_is_cut_in_mid_answer_changes_nothing_on_the_page",)
    ),
    "page/test_page_list.py": Capability(
        ("test_a_search_finds_the_turn_of_a_text",),
    ),
    "page/test_page_live.py": Capability(
        ("test_a_redirect_in_mid_answer_interrupts_the_model_and_brings_the_turn_to_its_end",)
    ),
    "page/test_page_paper.py": Capability(
        ("test_code_and_tables_are_on_paper_whole",),
        ("/web/src/markdown/",),
    ),
    "page/test_page_place.py": Capability(
        ("test_a_new_conversation_is_centred_and_nothing_moves_while_the_page_is_loaded",),
    ),
    "page/test_page_said.py": Capability(("test_a_refused_file_and_a_turn_that_fails_are_alerts",)),
    "page/test_page_sign_in.py": Capability(
        ("test_a_reload_signs_in_again_without_asking_and_stays_where_it_was",),
        ("local/stage/issuer/",),
    ),
    "page/test_page_turn.py": Capability(
        ("test_a_citation_of_the_answer_is_shown_as_a_source",),
    ),
    "page/test_page_upload.py": Capability(
        ("test_a_file_goes_up_is_judged_and_the_message_that_waited_for_it_is_read_with_it",)
    ),
    # Its page is installed from npm and built, half a minute before the first test.
    "page/test_page_use_chat.py": Capability(
        (), ("/examples/vite_chat/", "/web/packages/ai-sdk/", "/web/src/door/")
    ),
}


PAGE = ("/web/",)
DOCS = ("/docs/", "/README.md", "/CHANGELOG.md", "/AGENTS.md", "/LICENSE")
"""Sources whose change alone starts no stage."""

APP = ("/stepline_cdk/", "/app.py", "/cdk.json", "/layers/")
WHEEL_SOURCES = ("/pyproject.toml", "/hatch_build.py")
ERASURE = ("ingress/erase_user.py", "ingress/delete.py", "adapters/aws/", "log/")
MODEL_SDK = ("adapters/anthropic/", "adapters/provider/", "ports/model.py", "/requirements.lock")
WIRE_SUITES = (
    "unit/loop/",
    "unit/inspection/",
    "unit/bundle/generation/",
    "contract/test_fault_harness.py",
    "contract/test_receipt_units.py",
)
"""Suites whose model is called over each wire."""
SANDBOX = (
    "/exec_task/",
    "adapters/docker/",
    "adapters/process/",
    "adapters/sandbox/",
    "adapters/aws/task.py",
    "programs/",
)
MCP = ("adapters/mcp/", "ports/mcp/", "tools/")
NIGHTLY: Mapping[str, tuple[str, ...]] = {
    # Templates of stages that only these files ask for; a landing has the four that the others share.
    "stacks/test_account_choices.py": APP,
    "stacks/test_agent.py": APP,
    "stacks/test_agent_place.py": APP,
    "stacks/test_alarm.py": APP,
    "stacks/test_bundle_layer.py": (*APP, "local/install/"),
    "stacks/test_calls.py": (*APP, "/lambdas/", "adapters/aws/", "bootstrap/", "loop/", "ingress/"),
    "stacks/test_cost.py": (*APP, "/bench/turn_cost.py", "/README.md"),
    "stacks/test_every_prop.py": APP,
    "stacks/test_federation.py": APP,
    "stacks/test_image.py": (*APP, "/exec_task/"),
    "stacks/test_layer.py": ("/layers/", "/stepline_cdk/code.py"),
    "stacks/test_memory.py": APP,
    "stacks/test_network.py": APP,
    "stacks/test_option_sets.py": (),  # two minutes: a landing that changes the app runs its draw alone
    "stacks/test_own_data.py": APP,
    "stacks/test_page_stack.py": APP,
    "stacks/test_review.py": APP,
    "stacks/test_service_log.py": APP,
    # A landing that draws it tries a sixteenth of the choices.
    "stacks/test_stage_change.py::test_every_": (),
    "stacks/test_simulation.py": ("/bench/simulate/", "/bench/ordinary_turn.py", "/bench/turn_cost.py"),
    "stacks/test_stack_pages.py::test_a_generated_page_matches_its_source[cost]": (
        *APP,
        "/bench/turn_cost.py",
        "/docs/build/cost.py",
    ),
    "stacks/test_stack_pages.py::test_a_generated_page_matches_its_source[scale]": (
        "/bench/simulate/",
        "/docs/build/scale.py",
    ),
    "stacks/test_traced_stage.py": APP,
    "stacks/test_way_back.py": APP,
    # Replays under a mutated parser, validator and renderer.
    "contract/test_replayed_mutants.py": ("replay/", "protocol/", "rendering/"),
    # The protocol's own suite, from npm.
    "contract/test_durable_streams.py": (
        "api/doors/",
        "delivery/stream_page.py",
        "delivery/stream_offset.py",
    ),
    # Also from npm, with the clients of PyPI.
    "contract/test_mcp_door.py": ("/web/packages/serve/", "local/command/door/", "adapters/mcp/"),
    # Moto beside memory: the same cases, at a hundred times the cost.
    "contract/test_deploy_storm.py::test_the_shared_": ("adapters/aws/",),
    "contract/test_erased_user.py[moto]": ERASURE,
    "contract/test_erasure.py[moto]": ERASURE,
    "contract/test_limits_at_once.py[moto]": ("ports/tenancy/", "adapters/aws/"),
    "contract/test_receipt_units.py[unheard]": ("inspection/", "ports/tracing/", "adapters/aws/"),
    "contract/test_receipt_units.py[wait]": ("inspection/", "ports/tracing/", "adapters/aws/"),
    "contract/test_workflow.py[moto]": ("bootstrap/in_process.py", "bundle/", "adapters/aws/"),
    "contract/test_s3_vectors.py": ("adapters/s3_vectors/", "ports/memory_index.py"),
    "contract/test_memory_index.py[s3_vectors]": ("adapters/s3_vectors/", "ports/memory_index.py"),
    # The walls of the other backends; each landing attacks the process.
    **{
        f"security/test_escape.py[{backend}]": SANDBOX
        for backend in ("docker split", "docker combined", "fargate", "process, ENOSYS", "fargate, EPERM")
    },
    # Other wires than that of Messages, over which each landing runs these suites.
    **{
        f"{suite}[{wire}]": (f"adapters/{wire}/", f"local/scripted/wire/{wire}_wire.py")
        for suite in WIRE_SUITES
        for wire in ("chat", "converse")
    },
    # The provider's SDK beside our own transport.
    "contract/test_model_client.py[sdk]": MODEL_SDK,
    "contract/test_model_transport.py[sdk]": MODEL_SDK,
    # Containers and processes that wait longer than they work.
    "contract/test_documents.py": ("tools/documents/", "/exec_task/"),
    "contract/test_executor_cancel.py": ("adapters/process/", "adapters/docker/", "/exec_task/"),
    "contract/test_mcp_server.py": MCP,
    "contract/test_run_faults.py[docker]": ("adapters/docker/", "/exec_task/"),
    "e2e/test_program.py[docker]": ("programs/", "loop/programs/", "adapters/docker/", "/exec_task/"),
    "contract/test_serve_image.py": ("/web/packages/serve/", "local/command/door/", "/docs/how-to/serve.md"),
    "contract/test_task_container.py": ("adapters/aws/", "loop/programs/", "/exec_task/"),
    "unit/adapters/docker/test_docker_containers.py": ("adapters/docker/", "/exec_task/"),
    "unit/adapters/mcp/test_hostile_server.py": MCP,
    "unit/docs/test_guides.py[mcp]": MCP,
    "unit/loop/test_registry_server.py::test_a_call_that_the_server_cannot_take_is_an_error_that_the_model_reads": MCP,
    "unit/loop/test_registry_server.py::test_a_third_party_server_is_listed_and_called_in_a_turn": MCP,
    "handlers/test_snapshot.py::test_no_process_state_is_kept_besides_the_app": ("/lambdas/", "bootstrap/"),
    "handlers/test_snapshot.py::test_only_a_stage_on_bedrock_loads_the_models_sdk": (
        "/lambdas/",
        "bootstrap/",
        "adapters/",
    ),
    "handlers/test_snapshot.py::test_only_a_step_of_a_stage_with_traces_loads_the_trace_exporter": (
        "/lambdas/",
        "bootstrap/",
        "adapters/tracing/",
    ),
    "unit/local/install/test_requirement_lock.py": (
        "local/install/",
        "/requirements.lock",
        "/pyproject.toml",
    ),
    "unit/local/install/test_dist.py": (*WHEEL_SOURCES, "/.ci/dist", "/web/package-lock.json"),
    "unit/local/install/test_wheel.py[dist]": (*WHEEL_SOURCES, "/.ci/dist"),
    "unit/local/install/test_wheel.py::test_a_wheel_carries_the_library_and_the_whole_app[sdist]": WHEEL_SOURCES,
    "unit/local/install/test_wheel.py::test_the_library_alone_says_what_its_command_line_takes[sdist]": WHEEL_SOURCES,
    "unit/local/install/test_wheel.py::test_an_installed_command_line_keeps_everything_in_the_users_folder": WHEEL_SOURCES,
    # Requests of every kind against the whole description of the API.
    "unit/api/test_openapi_conformance.py::test_every_answer": (
        "api/",
        "ingress/",
        "model/wire/",
        "delivery/",
    ),
    "unit/api/test_openapi_workflow.py": ("api/", "ingress/", "model/wire/", "delivery/"),
}
"""Tests that need no stage and that a landing cannot afford, and the sources whose change runs them all the same.

A row is what node ids begin with, or `FILE[word]`: the cases of a file, or of a folder's files, that have the word as one of
their parameters.
"""

EMULATOR = re.compile(r"^(tests/)?contract/.*[\[-]emulator[\]-]")
"""A port's contract on the emulator, nightly: moto answers the same contract in each landing."""
CONTRACT_SOURCES = ("adapters/aws/",)

PYTHON_SOURCES = (
    *("/pyproject.toml", "/requirements.lock", "/requirements-local.lock", "/Makefile", "/.ci/"),
    *(
        "/exec_task/",
        "/layers/authorizer/",
        "/layers/deps/",
        "/layers/mcp/",
        "/layers/memory/",
        "/layers/tracing/",
        "local/install/",
    ),
)
"""Sources whose change makes a landing run the unit tests on the newest Python."""
TYPED = (LIBRARY, "bundles/", "examples/", "lambdas/", "exec_task/")
"""What is typed without the CDK, which takes three quarters of the time."""
TYPED_SOURCES = (
    "/stepline_cdk/",
    "/app.py",
    "/start.py",
    "/docs/build/",
    "/examples/hello/app.py",
    "/requirements.lock",
    "/pyproject.toml",
)
IAM_SOURCES = ("/stepline_cdk/access.py", "/tests/e2e/test_iam.py", "/tests/e2e/enforced.py")
