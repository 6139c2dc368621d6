"""docs/reference/parity.md: the terms of the design, each with its module and its test.

A term is `done` if a test fails without it, `in part` if a part of it is (the note names the rest), `not yet`, or
`different` on purpose, with the reason. For the first two the module must contain the word, and the test must exist. A
row may say how the promise is broken: `tests/contract/test_promises.py` does that in a copy of the library, and the
row's test must fail. A name that differs here stands in a table of its own, with the reason.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, Literal, NamedTuple, get_args

from docs.build import DOCS

PATH: Final = DOCS / "reference/parity.md"

Status = Literal["done", "in part", "not yet", "different"]


class Term(NamedTuple):
    """One row. `module` is below `stepline/` and holds `word`; `test` is a test below `tests/`, as `file::name`.

    `without` is the text in the place of `word` with which the promise is broken, if the row says so; then `word` stands
    once in the module.
    """

    term: str
    status: Status
    module: str = ""
    word: str = ""
    test: str = ""
    note: str = ""
    without: str | None = None


class Name(NamedTuple):
    """A name of the design, and the one it has here: `module` holds `word`."""

    old: str
    new: str
    module: str
    word: str
    reason: str


def done(term: str, module: str, word: str, test: str, note: str = "", *, without: str | None = None) -> Term:
    return Term(term, "done", module, word, test, note, without)


def partial(term: str, module: str, word: str, test: str, note: str) -> Term:
    return Term(term, "in part", module, word, test, note)


def planned(term: str, note: str = "") -> Term:
    return Term(term, "not yet", note=note)


def different(term: str, reason: str, module: str = "", word: str = "") -> Term:
    return Term(term, "different", module, word, note=reason)


AREAS: Final[dict[str, tuple[Term, ...]]] = {
    "The loop": (
        done("one agent in one loop: no planner, no coordinator, no gate inside it", "loop/decide.py", 'ends=decision.action != "call_tool",', "unit/loop/test_round.py::test_beside_an_answer_neutral_actions_run_and_then_the_turn_ends", without="ends=False,"),
        done("a round is one decision and one action: a call, `complete` or `exit`", "protocol/decision/fanout.py", 'return 1 if self.mode == "off" else self.max_actions', "unit/protocol/decision/test_fanout_rules.py::test_off_runs_the_first_action_and_refuses_the_second_with_a_notice", without="return self.max_actions"),
        done("`AI_REACT_MAX_ITERATIONS`, 15 if absent or not positive", "bundle/overrides.py", "return number if number > 0 else None", "unit/bundle/test_overrides.py::test_a_cap_that_is_not_positive_is_the_default_wherever_it_stands", without="return number"),
        done("`config.react.max_iterations`, `react.max_iterations`, then `ai.react.max_iterations`, then the variable", "bundle/overrides.py", 'props=("react.max_iterations",)', "unit/test_settings.py::test_the_bundle_decides_before_the_assembly_and_both_before_the_variable", without="props=()"),
        done("last round reserved for an answer", "loop/stream_generation.py", "return spent or finalize_left(timeline) == 1", "unit/loop/test_decide.py::test_the_last_round_takes_an_answer_and_nothing_else", without="return finalize_left(timeline) == 1"),
        done("a turn whose rounds are used up answers with its status", "loop/decide.py", "return replace(final, answer=answer, ended=cause)", "unit/loop/test_status_answer.py::test_a_turn_whose_reserved_round_fails_says_what_it_did", without='return replace(final, answer="", ended=cause)'),
        done("`AI_REACT_AGENT_VERSION` `v2` and `v3`", "bundle/overrides.py", "read=read_choice({version: version for version in VERSIONS}),", "unit/loop/test_title.py::test_the_version_of_a_deployment_reaches_the_agent", without='read=lambda *_: "v3",'),
        done("title of a new conversation by a gate, role `gate.simple` (v2)", "loop/title.py", "if not is_new(timeline, step) or not agent.gate:", "unit/loop/test_title.py::test_a_new_conversation_is_named_before_its_first_round", without="if True:"),
        done("title of a conversation from its working summary (v3)", "loop/close.py", 'title = parse_title(decision.summary) if decision and not state.titled else ""', "unit/loop/test_title.py::test_the_first_turn_that_ends_with_a_title_names_the_conversation", without='title = ""'),
        done("the runtime's own shape of a generation, not a provider's tool calls", "adapters/anthropic/call.py", '"stream": True,', "unit/adapters/anthropic/test_anthropic_client.py::test_a_call_has_one_system_list_and_one_message_with_marks", without='"stream": True, "tools": [],'),
        done("violations of the protocol are notices that the model reads in the next round", "loop/stream_generation.py", "notices=verdict.notices,", "unit/loop/test_decide.py::test_a_rejected_decision_runs_nothing_and_is_told_to_the_model_next_round", without="notices=(),"),
        done("a broken decision is tried again, within bounds", "loop/decide.py", "spent = state.round_retries >= policy.round_retries or state.turn_retries >= policy.turn_retries", "unit/loop/test_decide.py::test_a_turn_has_a_bound_of_its_own_for_broken_decisions", without="spent = state.round_retries >= policy.round_retries"),
        done("parameters that break a tool's contract refuse the call, unknown ones too", "protocol/decision/call_check.py", "if problems := spec.validate(call.params, unbound=unbound):", "unit/protocol/decision/test_notice.py::test_a_parameter_that_no_tool_has_is_refused", without="if problems := []:"),
        done("parameters in their documented order: refused where they stream, else told", "protocol/decision/read.py", "check_order(call, rules.tools, notices)", "unit/protocol/decision/test_read_decision.py::test_what_can_be_put_right_is_put_right_and_told", without="pass"),
        done("notes of a decision stand before its call", "timeline/turn_blocks.py", "            blocks += self.call(action, at, round_)", "unit/timeline/test_view.py::test_what_a_decision_says_stands_before_its_call", without="            blocks[-1:] = [*self.call(action, at, round_), *blocks[-1:]]"),
        done("tools' names of earlier versions answer with the new one", "protocol/decision/call_check.py", 'OLD_NAMES.get(tool_id, "")', "unit/protocol/decision/test_read_decision.py::test_an_old_name_of_a_tool_answers_with_the_new_one", without='""'),
    ),
    "Several actions in a round": (
        done("`AI_REACT_AGENT_MULTI_ACTION=safe_fanout`", "bundle/overrides.py", "mode = FANOUT_MODES.get(word)", "unit/bundle/test_overrides.py::test_many_words_mean_on", without='mode = "off"'),
        done("a decision in a channel of its own for each action", "protocol/decision/json_repair.py", 'code="multi_decision_in_one_channel")', "unit/protocol/decision/test_json_candidate.py::test_what_is_not_one_object_is_refused", without='code="json_decode_error")'),
        done("they run one after the other, in the order of their decisions", "protocol/decision/read.py", "actions=tuple(one.action for one in kept if one.action),", "unit/loop/test_round.py::test_actions_run_in_the_order_of_their_decisions_each_under_its_own_name", without="actions=tuple(one.action for one in reversed(kept) if one.action),"),
        done("an action that may depend on another one's result does not run with it", "protocol/decision/fanout.py", '"exploration": frozenset({"exploration", "neutral"}),', "unit/protocol/decision/test_fanout_rules.py::test_what_does_not_fit_costs_one_notice_and_nothing_else", without='"exploration": frozenset({"exploration", "exploitation", "neutral"}),'),
        done("`safe_fanout`: an independent write behind two searches", "protocol/decision/fanout.py", 'return looks and makes and earlier.reads == "outside" and later.reads == "parameters"', "unit/protocol/decision/test_fanout_rules.py::test_a_write_behind_two_searches_runs_where_nothing_in_it_can_come_from_them", without="return False"),
        done("the older allow-list of `safe_fanout`", "protocol/decision/fanout.py", 'if rule.mode == "read_write_search":', "unit/protocol/decision/test_fanout_rules.py::test_what_does_not_fit_costs_one_notice_and_nothing_else", "named `read_write_search`, after what it allows", without="if False:"),
        done("one program a round, bound to the decision before it", "protocol/decision/program_channel.py", "            owner = one.instance", "unit/protocol/decision/test_fanout_rules.py::test_a_program_belongs_to_the_decision_right_before_it", without="            owner = -1"),
    ),
    "Events": (
        done("events stand in the log before anything reacts to them", "ingress/admit.py", "    entries.append(event)\n", "unit/ingress/test_admit.py::test_what_an_event_becomes_depends_on_the_lane_and_on_its_kind", without="\n"),
        done("an event is admitted once, however often it is sent", "ingress/admit.py", "batch = journal.commit(plan, on_duplicate=again)", "unit/ingress/test_admit.py::test_a_resent_message_is_answered_with_its_first_place_and_admitted_once", without="batch = journal.commit(plan)"),
        done("a reactive event is folded into the open turn, which goes on at the next decision", "loop/close.py", "if settled.holding and not failed and _round_left(rules, state):", "unit/loop/test_close.py::test_a_message_the_model_has_not_seen_defers_the_end_and_is_seen_next", without="if False:"),
        done("an event that no round is left for opens the next turn", "loop/close.py", "    if settled.promoted:", "unit/loop/test_close.py::test_without_a_round_left_the_end_and_the_next_turn_are_one_batch", without="    if False:"),
        done("a round's start stands on the timeline while it is open", "timeline/turn_blocks.py", "groups.append(tuple(walk.begin(batch)))", "unit/timeline/test_turn_blocks.py::test_a_rounds_start_stands_on_the_timeline_while_it_is_open", without="groups.append(())"),
        done("a later `assistant.completion` has the plain path; `.1`, `.2` for earlier ones", "timeline/turn_blocks.py", 'number = "" if index == len(answers) else f".{index}"', "unit/timeline/test_view.py::test_the_newest_answer_has_the_plain_path_and_earlier_ones_are_numbered", without='number = "" if index == 1 else f".{index}"'),
        done("`ar:<turn>.external.<kind>.<message>`", "rendering/turn_facts.py", 'return f"ar:{turn}.external.{event.event}.{event.message_id}"', "unit/loop/test_followup_and_steer.py::test_a_followup_before_the_answer_is_read_and_answered_with_it", without='return f"ar:{turn}.user.prompt.{event.message_id}"'),
        done("`[LIVE TURN EVENTS]`", "context/announce.py", "        _events(facts.events),", "unit/context/test_announce.py::test_live_events_show_the_last_four_and_no_text_of_theirs_breaks_a_line", without='        "",'),
        done("`steer` ends the running generation", "loop/stream_generation.py", "        if stopped or watch.requested:", "unit/loop/test_steer_decide.py::test_a_steer_cuts_the_generation_off_and_what_was_shown_of_it_stays", without="        if stopped:"),
        done("`steer` ends a tool that can be cancelled", "loop/attempt.py", "cancel=self.watch if ends_early else NeverCancelled(),", "unit/loop/test_steer_act.py::test_a_tool_that_can_end_early_does_and_another_is_not_asked_to", without="cancel=NeverCancelled(),"),
        done("`steer` leaves the actions behind it undone", "loop/act.py", "steer = None if state.running or state.ends else steer_of(timeline)", "unit/loop/test_steer_act.py::test_a_steer_before_the_first_action_leaves_none_of_them_run", without="steer = None"),
        done("`steer` without a text stops the turn", "loop/steer.py", "finalize=0 if steer.stops else max(1, min(policy.finalize_rounds, left)),", "unit/loop/test_steer_decide.py::test_a_stop_that_stands_before_the_round_ends_the_turn_without_asking", without="finalize=max(1, min(policy.finalize_rounds, left)),"),
        done("`REACT_STEER_FINALIZE_ROUNDS`", "loop/steer.py", "min(policy.finalize_rounds, left)", "unit/loop/test_finalize.py::test_another_number_of_rounds", without="min(2, left)"),
        done("`REACT_STEER_FINALIZE_MAX_TOKENS`, at least 512", "loop/steer.py", "return min(max_tokens, max(TOKENS_MIN, policy.finalize_max_tokens))", "unit/loop/test_finalize.py::test_how_long_they_may_be_has_a_floor_and_the_agents_own_limit", without="return min(max_tokens, policy.finalize_max_tokens)"),
        done("while it finalizes a turn may write, plan and hide, and nothing else", "loop/stream_generation.py", "allowed=frozenset(finalize_tools(agent)) if finalize_left(timeline) else agent.callable_ids,", "unit/loop/test_finalize.py::test_any_other_call_is_refused_and_told", without="allowed=agent.callable_ids,"),
        done("forms and wizards ask for an answer, alerts and any other event if they say so", "model/wire/live_event.py", 'REACTIVE_KINDS: Final = frozenset({"form", "wizard"})', "unit/ingress/test_admit.py::test_what_an_event_becomes_depends_on_the_lane_and_on_its_kind", without="REACTIVE_KINDS: Final = frozenset()"),
        done("`iteration_credit`: a reactive event adds rounds", "ingress/admit.py", "int(event.payload.get(CREDIT, standard))", "unit/ingress/test_event_validation.py::test_an_event_brings_as_many_rounds_as_it_asks_for_up_to_what_a_turn_has", without="int(standard)"),
        done("credits at most double a turn's rounds", "ingress/admit.py", "credits=min(state.credits + _credit(ports, event), most)", "unit/ingress/test_admit.py::test_each_followup_brings_a_round_up_to_as_many_as_a_turn_has", without="credits=state.credits + _credit(ports, event)"),
        done("`conversation_order()` by truthful start times", "timeline/order.py", "sorted(own, key=lambda at: at[0])", "unit/timeline/test_order.py::test_an_answer_stands_before_the_message_that_came_while_it_was_written", without="own"),
        done("events of other services, under a role of their own", "bootstrap/event_source.py", "source=self._source,", "unit/bootstrap/test_event_source.py::test_an_event_of_a_service_joins_the_open_turn_in_the_services_name", without='source="",'),
        different("the grace before a turn ends (`REACT_EXTERNAL_EVENT_EXIT_GRACE_MS`)", "the end is put behind the newest event or not at all, so no wait is needed"),
        different("a listener of the open turn, an event source with an owner and a lease", "a step reads the log; who owns the turn is in the log's state"),
    ),
    "Channels and streaming": (
        done("`<channel:NAME>` tags", "protocol/parser/grammar.py", '_CHANNEL = rf"channel{', "unit/protocol/parser/test_channel_parser.py::test_every_body_is_what_the_model_wrote", without='_CHANNEL = rf"chanel{'),
        done("`thinking`, shown while it is written", "protocol/stream/show.py", 'LaneFacts(marker="thinking")', "unit/protocol/stream/test_show.py::test_thinking_notes_and_answer_are_lanes_with_their_facts", without='LaneFacts(marker="answer")'),
        done("`ReactDecisionOutV2` with `call_tool`, `complete`, `exit`; `action` is an alias", "protocol/parser/grammar.py", 'aliases=("action",)', "unit/protocol/parser/test_channel_parser.py::test_an_alias_opens_and_closes_the_channel_it_stands_for", without="aliases=()"),
        done("`code`, byte for byte: a backtick hides no end of it", "protocol/parser/grammar.py", '"code", "text", escape="none"', "unit/protocol/parser/test_channel_parser.py::test_every_body_is_what_the_model_wrote", without='"code", "text", escape="markdown"'),
        done("`summary`, never shown as text for the user", "protocol/decision/read.py", 'summary="\\n\\n".join(_texts(transcript, SUMMARY)) if answers or salvages else "",', "unit/protocol/decision/test_read_decision.py::test_an_answer_carries_its_followups_and_summary", without='summary="",'),
        done("repeated channels are instances", "protocol/parser/channel_parser.py", "self._count[spec.name] += 1", "unit/protocol/parser/test_channel_parser_properties.py::test_no_character_is_lost_and_none_is_made_up", without="self._count[spec.name] += 0"),
        done("a tag named in a code span opens no channel", "protocol/parser/channel_parser.py", "named = judge_in_span(tag, text, final=final) if spans else None", "unit/protocol/parser/test_channel_parser.py::test_a_tag_named_in_a_code_span_between_channels_opens_none", without="named = None"),
        done("`final_answer` and `notes` streamed while the decision is generated", "protocol/stream/live_decision.py", '_ANSWER: Final = ("final_answer",)', "unit/protocol/stream/test_show.py::test_every_character_is_shown_as_it_comes", without='_ANSWER: Final = ("no_answer",)'),
        done("files and programs streamed while they are generated", "protocol/stream/record.py", "            self.lane.take(held)", "unit/protocol/stream/test_record.py::test_a_file_streams_while_it_is_written", without="            pass"),
        done("content of `rendering_tools.write_*` is shown without a `channel`", "protocol/stream/record.py", 'needed=frozenset({"path"}), refs=True', "unit/protocol/stream/test_record.py::test_a_renderer_needs_no_channel", without="refs=True"),
        done("`ChannelSpec(name, format, replace_citations, emit_marker)`", "bundle/generation/dispatch.py", "marker=account.spec.emit_marker,", "unit/docs/test_stream_channels.py::test_channels_go_to_their_surfaces", without='marker="answer",'),
        done("`stream_with_channels(svc, messages, role, channels, emit, agent, artifact_name, sources_list, subscribers, …)`", "bundle/generation/stream.py", "artifact_name=artifact_name,", "unit/bundle/generation/test_stream_with_channels.py::test_a_delta_has_the_facts_of_its_channel_and_counts_per_channel", without="artifact_name=None,"),
        done("`results[…].raw`, never changed by what is shown", "bundle/generation/dispatch.py", 'raw="".join(one.raw for one in instances),', "unit/bundle/generation/test_stream_with_channels.py::test_stored_text_is_never_touched_w6", without='raw="".join(bodies).upper(),'),
        done("`results[…].used_sources`", "bundle/generation/dispatch.py", "            used |= cited", "unit/bundle/generation/test_stream_with_channels.py::test_sids_of_a_text_are_told_known_or_not", without="            pass"),
        done("`return_full_raw`, and `service_error` in the second value", "bundle/generation/stream.py", "return (results, generation.meta(failures)) if return_full_raw else results", "unit/bundle/generation/test_stream_failure.py::test_a_model_that_fails_is_reported_and_not_raised_w13", without="return results"),
        done("`ChannelSubscribers().subscribe(…)`: side effects of a channel", "bundle/generation/dispatch.py", "for one in self._subscribers.static(spec.name)]", "unit/bundle/generation/test_stream_with_channels.py::test_of_one_delta_the_main_consumer_hears_first_then_static_then_instance_subscribers", without="for one in ()]"),
        done("a channel parsed into a Pydantic model", "bundle/generation/channel_result.py", "return model.model_validate(value)", "unit/bundle/generation/test_stream_with_channels.py::test_a_body_is_read_into_the_channels_model", without="return value"),
        done("channels `answer`, `followup`, `usage` and canvas of one's own", "bundle/generation/dispatch.py", "            await live.main.call(**payload)", "unit/docs/test_stream_channels.py::test_channels_go_to_their_surfaces", without="            pass"),
        done("a `followup` channel becomes `chat.followups`, suggestion by suggestion", "bundle/generation/artifact_stream.py", 'path == ("followups", "")', "unit/bundle/generation/test_artifact_stream.py::test_a_followup_channel_becomes_followups", without='path == ("nothing", "")'),
        done("citation tokens replaced in the stream, in `markdown`, `text` and `html`", "bundle/generation/shown_text.py", "self._citations = CitationStream(sources, spec.format) if cites else None", "unit/docs/test_stream_channels.py::test_an_answer_is_shown_with_links_and_kept_with_tokens", without="self._citations = None"),
        done('`<sup class="cite">` in `html`', "protocol/citation/hyperlink.py", '<sup class="cite" data-sids="{', "unit/protocol/citation/test_citation_stream.py::test_every_way_to_write_a_raised_citation_becomes_one_form", without='<sup data-sids="{'),
        done("a token split over pieces is never shown by half", "protocol/citation/citation_stream.py", "            if token is None:\n                self._held = text[start:]", "unit/protocol/citation/test_citation_stream.py::test_the_result_is_the_same_however_the_text_was_cut", without="            if token is None:\n                shown.append(text[start:])"),
        done("`CompositeJsonArtifactStreamer`: `composite_cfg`, `composite_channel`, `composite_marker`", "bundle/generation/artifact_stream.py", "artifact = self._artifacts.get(path[0]) if len(path) == 1 else None", "unit/bundle/generation/test_artifact_stream.py::test_each_named_value_is_an_artifact_however_the_text_is_cut", without="artifact = None"),
        done("composite fields that are numbers, lists or objects are streamed as JSON", "bundle/generation/artifact_stream.py", "self._fields = FieldStream(self._choose, self._choose_json)", "unit/bundle/generation/test_artifact_stream.py::test_each_named_value_is_an_artifact_however_the_text_is_cut", without="self._fields = FieldStream(self._choose)"),
        done("a schema's path in `composite_cfg` is no format", "bundle/generation/artifact_stream.py", 'cast("Format", kind) if kind in FORMATS else "markdown"', "unit/bundle/generation/test_artifact_stream.py::test_each_named_value_is_an_artifact_however_the_text_is_cut", without='cast("Format", kind)'),
    ),
    "Client events": (
        done("events derived from the log, so that a client that reloads sees the same", "events/derive.py", "            return decision_events(entry, batch)", "unit/local/terminal/test_reloaded_turn.py::test_a_client_that_reloads_shows_what_one_that_watched_shows", without="            return []"),
        done("a resumed client gets exactly what it missed", "delivery/resume.py", "missed = journal.since(after, consistent=True)", "unit/delivery/test_resume_client.py::test_a_client_gets_exactly_what_it_missed", without="missed = journal.since(after + 1, consistent=True)"),
        done("`chat.start`, with the rounds that the turn may have", "events/derive.py", "rounds=entry.rounds", "unit/events/test_derive.py::test_a_turn_begins_with_its_limits_where_they_are_recorded", without="rounds=0"),
        done("`chat.start`, with the tokens that a request may have", "events/derive.py", "rounds=entry.rounds, max_tokens=entry.max_tokens", "unit/events/test_derive.py::test_a_turn_begins_with_its_limits_where_they_are_recorded", without="rounds=entry.rounds, max_tokens=0"),
        done("widgets `web_search.filtered_results`, `web_search.html_view`", "events/derive_round.py", "    if isinstance(data, SearchFiltered):", "unit/events/test_derive.py::test_what_a_search_found_is_told_as_html_too_in_which_nothing_is_a_page_s_own", "the HTML is made from the results, and stored nowhere", without="    if False:"),
        done("widget `web_fetch.results`", "events/derive_round.py", "    model.EVENT: model for model in (SearchFiltered, PagesFetched, Followups)", "unit/events/test_derive.py::test_pages_that_were_fetched_are_a_type_of_their_own", without="    model.EVENT: model for model in (SearchFiltered, Followups)"),
        done("`solver.react.decision` says which model decided", "events/derive_round.py", "model=entry.model,", "unit/events/test_derive.py::test_a_decision_says_what_streamed_before_it_and_what_it_cost", without='model="",'),
        done("`solver.react.decision` has its thinking", "events/derive_round.py", "for text, (began, ended) in zip(entry.thinking, times, strict=False)", "unit/events/test_derive.py::test_a_decision_says_what_streamed_before_it_and_what_it_cost", without="for text, (began, ended) in ()"),
        done("`solver.react.decision` has its usage", "events/derive_round.py", "usage=_usage(entry),", "unit/events/test_derive.py::test_a_decision_says_what_streamed_before_it_and_what_it_cost", without="usage=None,"),
        done("`solver.react.decision` has the time when the model was asked", "events/derive_round.py", "started_at=entry.started_at,", "unit/events/test_derive.py::test_a_decision_says_what_streamed_before_it_and_what_it_cost", without='started_at="",'),
        done("`solver.react.decision` says what the request had seen", "events/derive_round.py", "rendered=rendered,", "unit/events/test_derive.py::test_a_decision_says_what_streamed_before_it_and_what_it_cost", without="rendered=0,"),
        done("`solver.react.decision` says how many rounds are left", "events/derive_round.py", "rounds_left=entry.rounds_left,", "unit/events/test_derive.py::test_a_decision_says_what_streamed_before_it_and_what_it_cost", without="rounds_left=0,"),
        done("`react.tool.call`, `react.tool.result`, `react.tool.rejected`", "events/derive_round.py", 'return make_event(rejected, at, turn, "error")', "unit/events/test_derive.py::test_an_action_that_was_dropped_beside_others_is_rejected_by_its_number", without='return make_event(Noticed(iteration=entry.iteration, code=notice.code), at, turn, "error")'),
        done("`code_exec.*`: a program's name, objective, code, contract and end", "events/derive_round.py", "events += program_ended(entry, turn)", "unit/loop/programs/test_program_round.py::test_clients_see_the_program_start_and_end_and_what_its_tools_said", without="pass"),
        done("events of tools reach the clients (`ChatCommunicator`)", "events/derive_round.py", "        events += tool_told(told, entry.tool_id, entry.call_id, turn)", "unit/loop/programs/test_program_round.py::test_an_event_of_an_ordinary_tool_reaches_the_clients_too", without="        pass"),
        done("`chat.files` with `call_id`", "events/derive_round.py", "call_id=call,", "unit/events/test_derive.py::test_a_result_is_previewed_and_its_files_are_offered", without='call_id="",'),
        done("`chat.files` with `sha256`", "events/derive_round.py", "sha256=body.sha256,", "unit/events/test_derive.py::test_a_result_is_previewed_and_its_files_are_offered", without='sha256="",'),
        done("`chat.citations`", "events/derive_close.py", "        told.append(Citations(count=len(cited), items=cited))", "unit/events/test_derive_close.py::test_citations_come_in_the_order_of_their_numbers", without="        pass"),
        done("`chat.followups`", "events/derive_close.py", "    if ok and entry.followups:", "unit/events/test_derive_close.py::test_a_turn_with_everything_ends_in_the_order_that_is_promised", without="    if False:"),
        done("`chat.turn.summary`, `chat.conversation.turn.completed`", "events/derive_close.py", "        _summary(entry),\n", "unit/events/test_derive_close.py::test_the_end_says_where_the_time_went", without=""),
        done("`accounting.usage`, in tokens and not in money", "events/derive_close.py", "        told.append(turn_usage(entry, entry.usage))", "unit/events/test_derive_close.py::test_what_a_turn_consumed_is_told_in_tokens_and_weighed_and_not_in_money", without="        pass"),
        done("`chat.complete`, or `chat.error` with `retryable`", "events/derive_close.py", "retryable=entry.code not in FINAL,", "unit/events/test_derive_close.py::test_a_failure_says_whether_the_message_may_be_sent_again_and_when", without="retryable=True,"),
        done("a running program's output, live and after a reconnect", "delivery/program_log.py", "    if frames:\n", "unit/delivery/test_program_log.py::test_a_client_that_watches_sees_what_a_program_prints_while_it_runs", without="    if not frames:\n"),
        done("a refused message is sent again as `retryable` and `retry_after_s` say, under its id", "local/client/session.py", "self._clock.monotonic_s() + frame.retry_after_s", "unit/local/client/test_pace.py::test_a_message_waits_as_long_as_the_server_asks_and_goes_out_under_its_id", without="self._clock.monotonic_s()"),
        done("`chat.error` with `retry_after_s`", "events/derive_close.py", "retry_after_s=entry.retry_after_s,", "unit/events/test_derive_close.py::test_a_failure_says_whether_the_message_may_be_sent_again_and_when", without="retry_after_s=0,"),
        done("`conv_status`", "events/derive_close.py", "    told.append(_standing(entry, next_turn))", "unit/events/test_derive_close.py::test_behind_the_terminal_event_stands_how_the_conversation_goes_on", without="    pass"),
        done("`chat.compaction` on `chat_compaction`", "events/types.py", 'ROUTE = "chat_compaction"', "unit/loop/test_make_room.py::test_clients_hear_of_a_beginning_and_of_its_end_under_one_id", without='ROUTE = "chat_step"'),
        done("an event filter that fails closed", "events/filter.py", "                failures += 1", "unit/events/test_event_filter.py::test_a_rule_that_fails_withholds_and_is_counted_once_an_event", without="                passed.append(event)"),
        different("`chat.delta`, its markers and `index`", "text comes in lanes, each with its offset, so that a client can ask for what it missed"),
        different("events over Redis Pub/Sub to server-sent events", "the websocket is the way; a Redis only makes it faster where there is one"),
        different("a chat adapter for Telegram", "a client applies the same events; none is part of this product"),
    ),
    "Tools": (
        done("`react.read`", "tools/read/run.py", "react.read", "unit/tools/read/test_read.py::test_every_family_of_the_log_is_read", "all path families; the bytes of other files than pictures and PDFs are named, and the row and the call say so"),
        done("`react.read` is never `ok` for what it does not attach", "tools/read/run.py", "if any(_is_served(row) for row in rows):", "unit/tools/read/test_attach.py::test_what_is_not_attached_is_no_success_and_the_row_says_why", without="if True:"),
        done("`react.read` of PNG, JPEG, WebP, GIF and PDF: attached behind the last mark, the two newest", "context/media.py", "if len(found) == NEWEST:", "unit/context/test_media.py::test_the_newest_are_two_each_content_once_in_the_order_of_their_last_read", "of pictures of programs, of the pool and of attachments alike", without="if len(found) == 2 * NEWEST:"),
        done("`image_downscaled_for_visible_context`, `image_view`", "tools/read/attach.py", "image_downscaled_for_visible_context", "unit/tools/read/test_attach.py::test_a_large_picture_is_scaled_down_and_the_row_says_so"),
        done("`react.read` dedups: `exists_in_visible_context`", "tools/read/run.py", "if shown := _shown_by(request, content, context, alone=alone):", "unit/tools/read/test_read.py::test_what_the_model_sees_already_is_not_repeated", without="if shown := None:"),
        done("`react.read` gives a status first, then the content", "tools/read/run.py", "    blocks = (*_missing_notice(rows, context), status, *views)", "unit/tools/read/test_read.py::test_a_file_that_was_written_is_read_back_as_it_is", without="    blocks = (*_missing_notice(rows, context), *views, status)"),
        done("`react.read` shows again what was hidden", "timeline/fold.py", "if piece.path == path and piece.shows and piece.text:", "unit/loop/test_read_back.py::test_what_is_hidden_is_shown_again_when_it_is_read", without="if piece.path == path:"),
        done("`react.read` `items`: ranges by lines or characters", "tools/read/read_request.py", 'line_start=item.get("line_start"),', "unit/tools/read/test_read.py::test_several_ranges_of_one_path_are_served_in_order", without="line_start=None,"),
        done("`react.read` previews say `[start-end]/total` and name a line that is cut", "tools/window.py", 'return f"[{shown}]/{self.line_count}"', "unit/tools/test_window.py::test_the_notation_names_whole_lines_only", without='return f"[{shown}]"'),
        done("`max_text_symbols` asks for less, never for more", "tools/read/run.py", "return min(context.caps.max_chars, request.max_chars or context.caps.max_chars)", "unit/tools/read/test_read.py::test_a_smaller_preview_may_be_asked_for_but_never_a_larger_one", without="return context.caps.max_chars"),
        done("`stats_only`", "tools/read/run.py", "        if stats_only:", "unit/tools/read/test_read.py::test_statistics_show_nothing", without="        if False:"),
        done("limits of a read, for each path: characters, tokens, bytes, share of the context", "tools/context.py", "tokens = max(READ_TOKENS_MIN, min(caps.max_tokens, int(window_tokens * context_fraction)))", "unit/tools/read/test_read.py::test_caps_shrink_with_the_models_window_but_never_below_a_floor", without="tokens = caps.max_tokens"),
        done("`react.write` with `canvas`, `timeline_text`, `internal`; `display`, `file`", "tools/write.py", 'if channel == "internal" and not scratchpad:', "unit/tools/test_write.py::test_an_internal_file_is_a_file_and_only_the_agent_sees_it", without="if False:"),
        done("`react.write` of an object is JSON", "tools/write.py", "text = content if isinstance(content, str) else _pretty(content)", "unit/tools/test_write.py::test_an_object_is_written_as_indented_json", without="text = str(content)"),
        done("`react.write` names the sources that its text cites", "tools/write.py", 'meta["sources_used"] = list(sids)', "unit/tools/test_write.py::test_sources_that_the_text_cites_are_named", without='meta["sources_used"] = []'),
        done("`scratchpad` notes (`react.note`)", "tools/write.py", "        blocks.append(_note_block(writing, context))", "unit/tools/test_write.py::test_a_scratchpad_is_also_a_note", without="        pass"),
        done("`[P] [D] [S] [A] [K]` tags of notes are read", "model/block.py", 'if line[:1] == "[" and line[1:2] in NOTE_TAGS and line[2:3] == "]":', "unit/tools/test_write.py::test_a_note_names_the_kinds_of_its_lines", without="if False:"),
        done("`[P] [D] [S] [A] [K]` tags of notes are taught", "tools/write.py", "', '.join(f'[{tag}] {kind}' for tag, kind in NOTE_TAGS.items())", "unit/tools/test_write.py::test_the_kinds_of_a_notes_lines_are_taught_where_it_is_written", without="', '.join(NOTE_TAGS.values())"),
        done("`[P] [D] [S] [A] [K]` tags of notes, kept behind a compaction", "context/summary_text.py", 'NOTED: [f"[{tag}] {said}" for tag, said in noted if tag != PREFERENCE],', "unit/context/test_summary_ledger.py::test_the_tagged_lines_of_notes_stay_and_a_preference_outlasts_the_rest", without="NOTED: [],"),
        done("`ref:<path>` in parameters of `react.write` and of external tools", "tools/registry.py", "action.bound.get(path)", "unit/loop/test_referred_content.py::test_a_write_by_reference_writes_the_content_and_not_the_reference", "but for a call that runs a program; bound with the decision, so that a retry gets the same", without="None"),
        done("a reference to what is not in view is refused", "loop/referred_content.py", 'if not self._is_visible(path) or content.block.meta.get("missing_sids"):', "unit/loop/test_referred_content.py::test_only_what_stands_in_this_conversation_and_in_view_is_read", without="if False:"),
        done("a reference by a physical path is put right, and told", "protocol/decision/reference.py", "fixed = {written: path for written, path in canonical.items() if written != path}", "unit/protocol/decision/test_reference.py::test_a_path_of_another_form_is_put_right_and_told", without="fixed: dict[str, str] = {}"),
        done("an internal file is not rendered", "protocol/decision/reference.py", "if found.internal and tool_id.startswith(_RENDERER):", "unit/loop/test_referred_content.py::test_an_internal_file_is_not_rendered", without="if False:"),
        done("`sources_list` takes rows of the pool, and nothing else", "protocol/decision/reference.py", 'if param == SOURCES_PARAM and not found.path.startswith("so:"):', "unit/protocol/decision/test_reference.py::test_a_reference_that_cannot_be_bound_refuses_the_decision", without="if False:"),
        done("`react.patch`: unified diff or whole text, line numbers refused, `suggested_read`, syntax check", "tools/workfiles/patch.py", "if looks_pasted(bodies) and not looks_pasted(split_lines(old)):", "unit/tools/workfiles/test_patch.py::test_what_was_copied_with_its_line_numbers_is_refused", "the diff as applied is a view of its own, never the file; a bare name is in `outputs/`, as for `react.write`", without="if False:"),
        done("`react.rg`: root, names and lines by RE2, `read_items`", "tools/workfiles/rg.py", "MEMORY_BYTES, True, False", "unit/tools/workfiles/test_rg.py::test_each_line_is_searched_by_itself", without="MEMORY_BYTES, False, False"),
        done("`react.pull`: files of earlier turns, as they were written", "timeline/workspace.py", "            files |= pick_files(fold_files(timeline.turn_blocks(of)), ref)", "unit/tools/test_pull.py::test_an_exact_file_is_pulled_to_where_its_turn_wrote_it", without="            pass"),
        done("`react.pull` of a folder below `files/`; outputs and attachments one by one", "tools/pull.py", '    if space == "outputs":', "unit/tools/test_pull.py::test_what_cannot_be_pulled_is_refused_with_its_reason", without="    if False:"),
        done("`react.checkout` with `replace` and `overlay`, whole or not at all", "tools/workfiles/checkout.py", 'kept = here if mode == "overlay" else {}', "unit/tools/workfiles/test_checkout.py::test_replace_leaves_nothing_else_and_overlay_the_rest", "a pull before it is allowed and not needed: nothing has to be on a disk; `force` where this turn's own files would be gone", without="kept = here"),
        done("`react.hide`", "timeline/fold.py", "    for overlay in entry.hides:", "unit/loop/test_read_back.py::test_what_is_hidden_is_shown_again_when_it_is_read", without="    for overlay in ():"),
        done("`react.hide` reaches no further than the editable tail", "tools/hide.py", "if judged.tail_tokens > rules.editable_tail_tokens:", "unit/timeline/test_forgetting_properties.py::test_what_has_more_than_the_editable_tail_behind_it_is_not_hidden", without="if False:"),
        done("`react.hide` changes nothing before the pre-tail mark", "tools/hide.py", "if found[0] < pre_tail(pieces, rules):", "unit/timeline/test_forgetting_properties.py::test_what_stands_before_the_pre_tail_is_not_hidden", without="if False:"),
        done("`react.memsearch`: a turn is one hit, with paths that resolve and previews of 500 characters at most", "tools/memory/memsearch.py", "SNIPPET_CHARS: Final = 500", "unit/tools/memory/test_memsearch.py::test_a_preview_is_short_and_shows_the_words_that_were_asked_for", "the previews stand in the result, and no block at a snippet's own path: one more block at the path of the whole would be taken for it, and a view would be paid for in every later request; what is in view already is named without its text. `source_query`, `mode`, `scope` and `total_turns` stand once above the hits; `best_turn_id` is `turn_id`, since a hit is one turn", without="SNIPPET_CHARS: Final = 5_000"),
        done("`react.memory_read` answers with `react.memsearch`", "protocol/decision/call_check.py", '"react.memory_read": "react.memsearch",', "unit/tools/test_registry.py::test_the_search_of_earlier_versions_hears_its_new_name", without=""),
        done("`react.search_files` answers with `react.rg`", "protocol/decision/call_check.py", '"react.search_files": "react.rg",', "unit/tools/test_registry.py::test_the_search_of_earlier_versions_hears_its_new_name", without=""),
        done("`react.search_knowledge`: `limit`, `top_k` or `max_hits`, `root`, `keywords`", "tools/knowledge.py", '("limit", "top_k", "max_hits")', "unit/bundle/test_parts.py::test_a_search_is_limited_by_any_of_its_names_and_takes_more_words_and_a_root", without='("limit",)'),
        done("`react.search_knowledge(query)`, where a bundle has documents", "bundle/parts.py", "(*own, knowledge_tool(self.search))", "unit/bundle/test_parts.py::test_the_agent_searches_and_reads_what_its_bundle_knows", without="own"),
        done("`web_tools.web_search` by Brave, Tavily or SearXNG, or over a collection", "bootstrap/choice.py", "return BraveSearch(key=partial(search_key, settings), base_url=url or URL)", "unit/bootstrap/test_web_choice.py::test_the_engine_is_the_one_that_the_settings_name", without="return CorpusSearch()"),
        done("`web_tools.web_fetch`: readable text, within limits, into the pool of sources", "tools/web/web_fetch.py", "    cited = context.cite(_source(page, context.ts) for page in got if isinstance(page, Page))", "unit/tools/web/test_web_fetch.py::test_a_page_is_a_source_that_a_text_can_cite", "no PDF, no archive, no `refinement`; a row's `status` is `success` or a code", without="    cited = ()"),
        done("an address that is not public is never fetched, at no redirect", "adapters/web/page_fetch.py", "            target = self.guard.read(_join(target.url, answer))", "contract/test_page_fetch.py::test_a_redirect_to_where_nobody_may_go_is_refused", without="            target = target._replace(url=_join(target.url, answer))"),
        done("a name is resolved once, and what it led to is connected to", "adapters/web/page_fetch.py", "        plain.connect((str(self._address), self._target.port))", "contract/test_page_fetch.py::test_a_name_is_looked_up_once_and_what_it_says_later_does_not_count", without="        plain.connect((self._target.host, self._target.port))"),
        done("`rendering_tools.write_pdf`, `…docx`, `…xlsx`, `…html`", "tools/documents/rendering_tools.py", "include_sources_section", "contract/test_documents.py::test_text_tables_code_links_and_pictures_are_in_the_document", "from Markdown; `format` mermaid and html are `format_unsupported`, since there is no browser"),
        done("`rendering_tools.write_pptx` with `include_sources_slide`", "tools/documents/rendering_tools.py", "include_sources_slide", "contract/test_documents.py::test_slides_end_with_their_sources_if_they_are_asked_to", "from Markdown, where a heading or a line begins a slide; no HTML sections"),
        done("`rendering_tools.write_png` with `fit`, `padding_px`, `zoom`, `width`, `height`, `device_scale_factor`", "tools/documents/rendering_tools.py", "device_scale_factor", "contract/test_documents.py::test_a_picture_is_cut_to_its_content_and_its_padding_and_zoom_make_it_larger", "from Markdown; there are no parameters of mermaid"),
        done("`tool_call_warning.missing_sources`, `tool_call_error.missing_assets`, `write_warning`", "loop/programs/tool_program.py", "write_warning", "unit/loop/programs/test_isolated_call.py::test_warnings_are_notices_and_a_small_file_says_so", "`missing_sid_assets` has no case here: a picture is named by its path"),
        planned("email tools", "a bundle may bring its own"),
        done("`exec_tools.execute_code_python`: `contract`, `prog_name`, `timeout_s`", "tools/execute_code.py", '"required": ["contract"],', "unit/tools/test_execute_code.py::test_another_call_is_refused", without=""),
        done("`ctx_tools.fetch_ctx` of a program: one path or a list", "tools/fetch.py", "    if isinstance(path, str):", "unit/tools/test_fetch.py::test_a_list_is_answered_path_by_path_in_its_order", without="    if True:"),
        done("`io_tools.tool_call` of a program", "programs/host.py", "value = pack_bytes(_value(output))", "unit/programs/test_host.py::test_a_program_gets_the_value_the_tool_has_for_programs", "`agent_io_tools.tool_call`; `io_tools` is its other name", without="value = None"),
        planned("`ctx_tools.merge_sources`", "the sources of all calls of a program are merged without being asked"),
        done("tools of bundles (`tools_descriptor`: `TOOLS`)", "bundle/parts.py", 'return _rows(module, TOOLS, Tool, code="tools_module_invalid")', "unit/docs/test_write_a_bundle.py::test_the_agent_has_the_tools_and_the_skills_of_the_page", without="return ()"),
        done("MCP tools (`MCP_TOOL_SPECS`, `mcp.<alias>.<tool>`)", "tools/mcp/tool_list.py", 'return f"mcp.{self.alias}.{self.name}"', "unit/loop/test_registry_server.py::test_a_server_that_nobody_here_wrote_is_listed_and_called_through_a_turn", "programs do not call them", without='return f"{self.alias}.{self.name}"'),
        done("long work of an MCP server (tasks) waits without a function, and is called once", "loop/mcp/remote_task.py", "Started(call_id=action.call_id, task=kept)", "unit/loop/test_remote_task.py::test_an_execution_that_is_lost_while_a_task_runs_is_followed_by_one_that_asks_for_it", "tasks of 2025-11-25 and of the extension of 2026-07-28; a command's calls are never tasks", without="Started(call_id=action.call_id)"),
        done("a list of MCP tools is the same for a turn, and pinned in its log", "loop/mcp/turn_tools.py", "listed.until < turn.started_at", "unit/loop/test_turn_tools.py::test_a_turn_keeps_its_list_whatever_the_server_offers_meanwhile", without='listed.until < "9"'),
        done("an MCP tool without annotations runs at most once", "tools/mcp/tool_list.py", '"keyed" if tool.idempotent else "once"', "unit/loop/test_turn_tools.py::test_a_call_that_says_nothing_of_its_effect_is_started_before_it_runs_and_never_runs_twice", without='"keyed"'),
        done("descriptions of MCP servers are data: cut, and indented on the card", "tools/mcp/tool_list.py", 'lines.append(quote(tool.description or "(no description)"))', "unit/tools/mcp/test_tool_list.py::test_words_of_a_server_are_cut_and_can_forge_nothing_on_the_card", without="lines.append(tool.description)"),
        done("secrets of MCP servers by reference (`${secret:path}`, `auth`), never in a result", "tools/mcp/remote_tool.py", 'text = text.replace(secret, "[secret]")', "unit/tools/mcp/test_remote_tool.py::test_a_secret_that_a_server_says_back_stands_in_no_result", without="pass"),
        partial("`TOOL_RUNTIME`: where a tool runs", "tools/spec.py", "isolated", "unit/loop/programs/test_isolated_call.py::test_a_document_is_drawn_by_a_program_and_offered", "by its contract: in the step, or as a program where programs run; no mode for each tool"),
        done("large results are shown by their beginning, their shape and the way to the rest", "rendering/excerpt.py", "RESULT_PREVIEW_CHARS: Final = 12_000", "unit/context/test_request.py::test_a_large_result_is_previewed_and_a_read_is_not", without="RESULT_PREVIEW_CHARS: Final = 12_000_000"),
    ),
    "Paths": (
        done("path families `ar tc fi so su ws sk ks`", "model/path.py", '    "su": _parse_su,\n', "unit/model/test_path.py::test_every_family_is_read_and_printed_alike", without=""),
        done("`fi:<turn>.files/…` and `fi:<turn>.outputs/…`: the project, and what was produced", "model/path.py", 'else:\n        return FilePath(turn=turn, space="outputs", rel=check_relative(text))', "unit/model/test_path.py::test_a_writer_may_name_a_file_of_its_turn_in_any_form", without='else:\n        return FilePath(turn=turn, space="files", rel=check_relative(text))'),
        done("`turn_<id>/files/…`, `turn_<id>/outputs/…`, `turn_<id>/attachments/<name>` in the workspace", "model/path.py", 'return f"{path.turn}/attachments/{path.name}"', "unit/model/test_path.py::test_where_a_file_lies_and_what_it_is_called_follow_from_each_other", without='return f"{path.turn}/user/{path.name}"'),
        done("`turn_<id>/external/<kind>/attachments/<message>/<name>` in the workspace", "model/path.py", 'return f"{path.turn}/external/{path.kind}/attachments/{path.message_id}/{path.name}"', "unit/model/test_path.py::test_where_a_file_lies_and_what_it_is_called_follow_from_each_other", without='return f"{path.turn}/external/{path.kind}/attachments/{path.name}"'),
        done("`fi:<turn>.user.attachments/<name>`", "model/path.py", 'return f"fi:{self.turn}.user.attachments/{self.name}"', "unit/rendering/test_inbound.py::test_what_opened_the_next_turn_has_its_files_there_and_where_it_came", without='return f"fi:{self.turn}.attachments/{self.name}"'),
        done("`fi:<turn>.external.<kind>.attachments/<message>/<name>`", "model/path.py", 'return f"fi:{self.turn}.external.{self.kind}.attachments/{self.message_id}/{self.name}"', "unit/model/test_path.py::test_every_family_is_read_and_printed_alike", without='return f"fi:{self.turn}.external.{self.kind}.attachments/{self.name}"'),
        done("`so:sources_pool[1,3-5]`, also without `so:`", "tools/content.py", "    rows = select_sources(context.sources.rows, path.ranges)", "unit/tools/read/test_source_rows.py::test_rows_come_as_json_with_what_they_hold", without="    rows = ()"),
        done("`ar:plan.latest:<plan_id>`", "timeline/view.py", "        if path.startswith(_LATEST_PLAN):", "unit/timeline/test_view.py::test_a_plan_is_found_by_its_newest_snapshot", without="        if False:"),
        done("`ws:<turn>.conv.working.summary`", "timeline/view.py", "return self._last(turn, name) or self._summary(turn)", "unit/timeline/test_turn_index.py::test_what_the_model_wrote_is_the_summary", without="return ()"),
        done("`su:<turn>.conv.range.summary`", "timeline/turn_blocks.py", 'path=f"su:{turn}.{kind}"', "unit/context/test_compaction.py::test_a_summary_and_a_checkpoint_are_read_by_the_paths_that_they_show", without='path=f"ws:{turn}.{kind}"'),
        done("`ar:<turn>.react.turn.index`, made when it is read", "timeline/view.py", "return (self._index(self._history[turn]),)", "unit/timeline/test_turn_index.py::test_the_index_names_every_path_of_a_turn_and_each_leads_somewhere", without="return ()"),
        done("`ar:<turn>.artifacts.summary`", "timeline/view.py", "return (self._artifacts(path, self._history[turn]),)", "unit/timeline/test_turn_index.py::test_a_turns_artifacts_are_listed_at_a_path_of_their_own", without="return ()"),
        done("paths outlast pruning and compaction", "loop/make_room.py", "            moved = _compact(attempt, timeline, rung, need, asks=asks)", "unit/loop/test_read_back.py::test_after_a_compaction_a_process_that_was_never_there_reads_everything_as_it_was", without="            return timeline"),
        done("a physical path is no path of `react.*`, and answered with the logical one", "tools/content.py", 'code="path_not_logical",', "unit/tools/read/test_read.py::test_a_files_place_is_answered_with_its_logical_path", without='code="path_bad_form",'),
    ),
    "Timeline": (
        done("one ordered stream of blocks, each at a logical path", "timeline/turn_blocks.py", "            groups.append(tuple(found))", "unit/timeline/test_view.py::test_the_blocks_of_an_open_turn_are_its_history_its_beginning_and_its_events", without="            groups.append(tuple(reversed(found)))"),
        done("`user.prompt`, several in one turn", "rendering/turn_facts.py", 'return f"{plain}.{message_id}" if index else plain', "unit/rendering/test_inbound.py::test_the_events_that_open_a_turn_share_one_folder", without="return plain"),
        done("`user.attachment.meta`", "rendering/inbound.py", 'type=f"{ATTACHMENT}.meta"', "unit/rendering/test_inbound.py::test_a_block_before_a_file_says_what_it_is", without="type=ATTACHMENT"),
        done("`stage.gate`", "timeline/turn_blocks.py", 'return [self.block("stage.gate", "system", entry.at, text=entry.text)]', "unit/loop/test_title.py::test_the_gate_stands_in_the_timeline_as_a_stage", without="return []"),
        done("`stage.react`", "timeline/turn_blocks.py", 'blocks.append(self.block("stage.react", "react", start, meta={"model": entry.model}))', "unit/timeline/test_turn_blocks.py::test_the_first_decision_of_a_turn_is_the_stage_of_the_agent", without="pass"),
        done("`react.tool.call`, its whole parameters kept where they are shown in part", "timeline/turn_blocks.py", '"payload": action.params}', "unit/timeline/test_view.py::test_a_capped_call_keeps_its_whole_parameters", without='"payload": params}'),
        done("`react.tool.result`", "timeline/turn_blocks.py", "            blocks.insert(0, status)", "unit/timeline/test_view.py::test_a_result_without_blocks_has_a_status_at_its_path", without="            pass"),
        done("`react.notice`", "timeline/turn_blocks.py", "notice_call(notice, entry, turn)}", "unit/timeline/test_view.py::test_the_notices_of_a_round_stand_under_the_calls_they_are_about", without="call}"),
        done("`react.notes`", "timeline/turn_blocks.py", "        if entry.notes:\n", "unit/timeline/test_view.py::test_what_a_decision_says_stands_before_its_call", without="        if False:\n"),
        done("`react.plan` snapshots and `react.plan.ack`", "timeline/turn_blocks.py", "            blocks += self.ack(entry.plan, at, round_)", "unit/timeline/test_view.py::test_a_plan_is_found_by_its_newest_snapshot", without="            pass"),
        done("`react.decision.raw` of an interrupted generation", "timeline/turn_blocks.py", 'infix = ".interrupted" if entry.interrupted else ""', "unit/loop/test_followup_and_steer.py::test_a_steer_in_the_model_phase_leaves_what_was_cut_and_two_rounds", without='infix = ""'),
        done("`conv.working.summary`, and one by the runtime where the model wrote none", "timeline/view.py", "        text = summarize_turn(self.turn_blocks(turn))", "unit/timeline/test_turn_index.py::test_a_summary_that_nobody_wrote_says_what_was_wanted_done_and_left", without='        text = ""'),
        done("`assistant.completion` with `sources_used`", "timeline/turn_blocks.py", "            meta[SOURCES_USED] = about[SOURCES_USED]", "unit/timeline/test_turn_blocks.py::test_an_answer_names_the_sources_it_uses_each_its_own", without="            pass"),
        done("`react.turn.finalize`, `react.exit`", "timeline/turn_blocks.py", '_block(entry, "react.turn.finalize", "text/markdown", render_finalize(entry, left)),', "unit/timeline/test_turn_blocks.py::test_a_plan_that_is_over_is_not_left_open_but_in_the_state", without=""),
        done("`react.state`, with usage by name", "timeline/turn_blocks.py", '"usage": asdict(entry.usage or _NO_USAGE),', "unit/timeline/test_turn_blocks.py::test_a_machine_reads_the_same_as_people", without='"usage": list(asdict(entry.usage or _NO_USAGE).values()),'),
        done("`covered_turn_ids` of a `conv.range.summary`", "timeline/turn_blocks.py", "[one.id for one in self.turns if one.opened < entry.cut]", "unit/timeline/test_turn_blocks.py::test_a_summary_names_every_turn_that_it_covers", without="[one.id for one in self.turns]"),
        done("`system.message` after a pruning, once a turn", "timeline/fold.py", "    if timeline.pruned != entry.turn:", "unit/loop/test_pruning.py::test_after_a_pause_old_results_are_shorter_and_everything_is_read_again", without="    if False:"),
        done("`turn.feedback`", "timeline/view.py", "(*groups, tuple(map(feedback_block, said))) if said else groups", "unit/ingress/test_feedback.py::test_it_is_a_block_of_its_turn", without="groups"),
        done("exports `artifact:conv.timeline.v1`, `artifact:conv:sources_pool`, `artifact:turn.log`", "timeline/export.py", 'tags=(TURN_LOG, "kind:turn.log", f"turn:{turn}"),', "unit/timeline/test_export.py::test_a_turns_log_says_what_it_used", without="tags=(),"),
        done("exports keep fields that have their default", "timeline/export.py", "for name, own in asdict(value).items()}", "unit/timeline/test_export.py::test_a_document_names_the_fields_that_have_their_default", without="for name, own in asdict(value).items() if own}"),
        done("`history_blocks`, `current_turn_blocks`, `event_blocks` of v2", "timeline/fold.py", "groups = self.view.groups(self.current.id)[1:] if self.current else ()", "unit/timeline/test_view.py::test_the_blocks_of_an_open_turn_are_its_history_its_beginning_and_its_events", without="groups = self.view.groups(self.current.id) if self.current else ()"),
        different("the timeline as a document that is loaded, changed and written back", "the log is the record, and documents are made from it when somebody asks"),
    ),
    "Context": (
        done("order of a request: memory, pruned turns, recent turns, the open turn, SOURCES POOL, ANNOUNCE", "context/request.py", "volatile = (Part(text=text) for text in (sources, announce) if text)", "unit/context/test_request.py::test_the_pool_and_announce_stand_at_the_end_in_this_order", without="volatile = (Part(text=text) for text in (announce, sources) if text)"),
        done("ANNOUNCE and SOURCES POOL stand behind the last cache mark", "context/request.py", "volatile = (Part(text=text) for text in", "unit/context/test_request.py::test_marks_are_few_the_tail_is_marked_and_announce_never_is", without="volatile = (Part(text=text, cache=True) for text in"),
        done("cache points prev-turn, pre-tail and tail, and one for the system part", "context/request.py", "for end in {timeline.parts.turn_part, timeline.parts.seen_part, len(parts)}:", "unit/context/test_request.py::test_while_a_cache_may_live_the_parts_stay_the_same_and_the_last_tail_is_marked_again", "the pre-tail one is the tail of the request before", without="for end in {len(parts)}:"),
        done("what stands before a mark stands in the next request too, byte for byte", "rendering/request_parts.py", "self.seal(upto)\n        self.marked", "unit/context/test_request.py::test_what_stands_before_a_mark_stands_in_the_next_request_too", without="self.marked"),
        done("ANNOUNCE: budget, time, open plans, live events, feedback", "context/announce.py", "        _budget(facts),", "unit/context/test_announce.py::test_credits_stand_beside_the_base", without='        "",'),
        done("`user_timezone`, and the time there", "timeline/fold.py", "timeline.timezone = entry.timezone", "unit/context/test_announce.py::test_the_time_is_the_users_too_if_their_zone_is_known", without="pass"),
        done("the command line names the user's time zone", "local/client/outgoing.py", 'request["timezone"] = said.timezone', "unit/local/command/test_conversations.py::test_messages_name_the_time_zone_of_the_user", without="pass"),
        done("`[WORKSPACE]` in ANNOUNCE, with `ls workspace` in git mode", "context/announce.py", "[WORKSPACE]", "unit/context/test_announced_workspace.py::test_the_turns_own_files_are_counted_by_the_folder_at_the_top"),
        done("SOURCES POOL: the rows cited last and the newest", "context/announce.py", "    shown = dict.fromkeys(_cited_last(pool, cited))", "unit/context/test_announced_sources.py::test_of_a_large_pool_the_rows_cited_last_and_the_newest_are_shown", without="    shown = dict.fromkeys(())"),
        done("SOURCES POOL: a short text for rows that were cited", "context/announce.py", "return {sid: text for sid, text in found.items() if text.strip()}", "unit/context/test_announced_sources.py::test_a_row_that_was_cited_carries_a_short_text_and_no_other_does", without="return {}"),
        done("TTL pruning: older turns become cards or rows of paths", "context/pruning.py", "return idle_s >= rules.ttl_s - rules.ttl_buffer_s", "unit/loop/test_pruning.py::test_after_a_pause_old_results_are_shorter_and_everything_is_read_again", without="return False"),
        done("`cache_ttl_seconds` in bundle properties, then `ai.react.cache_ttl_seconds`, then the variable", "bundle/overrides.py", 'props=("react.cache_ttl_seconds",)', "unit/bundle/test_overrides.py::test_a_bundle_says_how_long_its_prompts_are_kept", without="props=()"),
        done("older turns: user and assistant text cut at 4,000", "rendering/reduce.py", "CLIP_BYTES: Final = 4_000", "unit/context/test_pruned_pieces.py::test_long_messages_and_answers_are_cut_and_name_where_they_stand_whole", "bytes, not characters", without="CLIP_BYTES: Final = 4_000_000"),
        done("older turns: results above 400 become stubs", "rendering/reduce.py", "STUB_FROM_BYTES: Final = 400", "unit/context/test_pruned_pieces.py::test_of_a_turn_that_is_not_intact_results_are_stubs_and_thoughts_are_gone", "bytes, not characters", without="STUB_FROM_BYTES: Final = 40_000_000"),
        done("lists of 50 items, maps of 80 keys", "rendering/call_preview.py", "DICT_KEYS: Final = 80", "unit/rendering/test_quote.py::test_a_preview_caps_strings_keys_and_items", without="DICT_KEYS: Final = 800"),
        different("base64 of 4,000 characters in blocks", "text has none from 2,048 on: a marker with its length takes its place", "rendering/quote.py", "BLOB_CHARS: Final = 2048"),
        different("base64 of 4,000 characters in the pool", "a row names the file, and holds none of its bytes", "model/source.py", "size_bytes: int = 0"),
        done("the range of a read stays in its stub", "rendering/render_reduction.py", 'return f"{file} range={piece.range}" if piece.range else file', "unit/timeline/test_forgetting_properties.py::test_a_range_that_was_pruned_is_read_again_by_its_stub", without="return file"),
        done("a skill that was pruned leaves its path", "rendering/render_reduction.py", 'line = f"{head} path={piece.path}{_facts(piece)}"', "unit/context/test_pruned_pieces.py::test_a_skill_is_pruned_to_the_path_by_which_it_is_read_again", without="line = head"),
        done("hard compaction into `[COMPACTED PRIOR CONVERSATION MEMORY]`", "timeline/compacted.py", "        kept[:0] = [memory, *_carried(gone, layout), *_plans(n, plans, layout)]", "unit/timeline/test_compacted.py::test_turns_before_the_cut_become_one_memory_that_carries_their_events_and_notes", without="        kept[:0] = [*_carried(gone, layout), *_plans(n, plans, layout)]"),
        done("compaction carries consumed events and internal notes", "timeline/compacted.py", "[memory, *_carried(gone, layout), *_plans(n, plans, layout)]", "unit/timeline/test_compacted.py::test_turns_before_the_cut_become_one_memory_that_carries_their_events_and_notes", without="[memory, *_plans(n, plans, layout)]"),
        done("working summaries are part of what a compaction is made of", "context/summary_text.py", "    return [*summaries, *passages]", "unit/context/test_summary_input.py::test_the_summaries_that_turns_have_come_first", without="    return passages"),
        done("compaction of the earlier rounds of an open turn", "timeline/compacted.py", "    if entry.split:\n        kept", "unit/timeline/test_compacted.py::test_a_split_leaves_the_opening_and_the_newest_rounds", without="    if False:\n        kept"),
        done("no request is above its budget (`AI_REACT_CONTEXT_MAX_TOKENS`)", "loop/make_room.py", "    if before <= rules.budget and not forced:", "unit/loop/test_make_room.py::test_no_request_is_above_the_budget_and_every_turn_is_answered", without="    if not forced:"),
        done("a request that the provider refuses as too long is made again, smaller (`force_sanitize`)", "loop/decide.py", "FORCED_MAX: Final = 3", "unit/loop/test_make_room.py::test_a_request_that_the_provider_finds_too_large_is_sent_again_smaller", "three times, not once", without="FORCED_MAX: Final = 0"),
        done("exact recovery by path: summary, index, then the path itself", "timeline/view.py", "yield from reversed(self.groups(named[1]))", "unit/loop/test_read_back.py::test_after_prunings_a_process_that_was_never_there_reads_everything_as_it_was", without="yield from ()"),
        done("the request of a round, rendered again from the log, equal in bytes", "loop/stream_generation.py", "announce=last.text if isinstance(last, Part) else", "unit/inspection/test_sent_request.py::test_every_round_of_a_turn_with_plans_and_messages_of_several_devices", "of what the log does not have, the decision records a digest, the announce and the limits; the system part is stored once", without='announce="" if isinstance(last, Part) else'),
        done("the system part of a request is shown to admins alone", "api/inspector.py", "return view if call.principal.is_admin else", "unit/api/test_inspector.py::test_the_request_of_a_round_is_equal_in_bytes_and_hides_the_system_part", "roles come from a verified claim of the token", without="return view if True else"),
        done("what a request shows shorter, why, and from how much", "inspection/reduction.py", 'return f"pruned: {entry.cause}"', "unit/inspection/test_request_view.py::test_pruned_pieces_say_why_and_compacted_ones_from_how_much", without='return ""'),
        different("only the last block of the agent is cached (v2)", "three points, so that a request reads what the one before wrote"),
    ),
    "Plans": (
        done("snapshots with `plan_id`, `steps`, `status`, `origin_turn_id`, `last_turn_id`", "tools/plan.py", "        origin_turn_id=turn,", "unit/tools/test_plan_tool.py::test_a_new_plan_is_current_and_named_after_its_call", without='        origin_turn_id="",'),
        done("`closed_ts`, `superseded_ts`", "tools/plan.py", "closed_ts=ts, closed_turn_id=turn", "unit/tools/test_plan_tool.py::test_a_closed_plan_is_over_and_the_current_one_stays", without='closed_ts="", closed_turn_id=turn'),
        done("steps as texts with a map of statuses; steps as objects are read too", "rendering/plan_text.py", "steps = [step if isinstance(step, str) else step.label for step in given]", "unit/rendering/test_plan_text.py::test_a_snapshot_with_steps_as_objects_is_read_too", without="steps = [step for step in given if isinstance(step, str)]"),
        done('`react.plan` `mode="new"`: a plan with an id of its own, current at once', "tools/plan.py", "return Change(mode=mode, snapshots=(*demoted, *retired, made), target=kept)", "unit/tools/test_plan_tool.py::test_a_second_plan_takes_over_and_the_first_stays_open", without="return Change(mode=mode, snapshots=(*retired, made), target=kept)"),
        done('`mode="replace"`: the old plan is superseded', "tools/plan.py", "superseded_by_plan_id=by,", "unit/tools/test_plan_tool.py::test_a_replaced_plan_is_over_and_says_by_what", without='superseded_by_plan_id="",'),
        done('`mode="activate"`: an older open plan is current again, under its own id', "tools/plan.py", "active = replace(target, current=True, last_ts=ts, last_turn_id=turn)", "unit/tools/test_plan_tool.py::test_an_older_plan_can_be_taken_up_again", without="active = replace(target, last_ts=ts, last_turn_id=turn)"),
        done('`mode="close"`', "tools/plan.py", "snapshots=(_closed(target, turn, ts),)", "unit/tools/test_plan_tool.py::test_a_closed_plan_is_over_and_the_current_one_stays", without="snapshots=(target,)"),
        done("marks ✓ ✗ … □ in the notes change the current plan", "tools/plan.py", 'acks[int(found["bracketed"] or found["plain"])] = _STATUS[found["mark"]]', "unit/tools/test_plan_tool.py::test_progress_is_read_as_it_is_written", without="pass"),
        done("only the current plan takes progress", "tools/plan.py", "if not (plan.current and plan.is_open()):", "unit/tools/test_plan_tool.py::test_a_plan_that_is_over_takes_no_progress", without="if False:"),
        done("a round that changes plans reports no progress", "loop/stream_generation.py", 'if any(action.tool_id == "react.plan" for action in verdict.actions):', "unit/loop/test_plan_progress.py::test_the_round_that_changes_plans_reports_no_progress", without="if False:"),
        done("open: neither closed, nor superseded, nor complete", "model/plan_steps.py", "return not (self.closed_ts or self.superseded_ts or self.is_complete())", "unit/model/test_plan_steps.py::test_a_plan_that_was_ended_asks_for_no_work", without="return not self.is_complete()"),
        done("the last four open plans in ANNOUNCE, `(current)` marked", "context/announce.py", "current = [plan for plan in found[:-PLANS_SHOWN] if plan.current]", "unit/context/test_announce.py::test_the_current_plan_is_shown_however_old_it_is", without="current: list[Plan] = []"),
        done("on a new turn only the current plan has its steps in ANNOUNCE", "context/announce.py", "whole=plan.current or plan.last_turn_id == facts.turn", "unit/context/test_announce.py::test_a_plan_of_an_earlier_turn_that_is_not_the_current_one_is_one_line", without="whole=True"),
        done("a plan goes on in later turns", "timeline/fold.py", "        _keep_plans(timeline, entry.plans)", "unit/loop/test_plan_progress.py::test_a_plan_goes_on_in_the_next_turn", without="        pass"),
        done("`react.plan.history` after a compaction, with `snapshot_ref`", "timeline/compacted.py", "*_carried(gone, layout), *_plans(n, plans, layout)]", "unit/timeline/test_compacted.py::test_the_plans_of_turns_that_go_are_told_and_cut_to_what_they_may_have", without="*_carried(gone, layout)]"),
        done("a plan that is over can be read at its path", "rendering/plan_text.py", "snapshot_ref=str(PlanPath(plan=plan.plan_id)),", "unit/rendering/test_plan_text.py::test_what_is_left_of_plans_is_told_of_all_but_the_current_one", without='snapshot_ref="",'),
    ),
    "Execution of generated code": (
        done("supervisor and executor: tools on one side, the program alone on the other", "adapters/docker/command_line.py", '*("--network", "none", "--ipc", "private", "--user", f"{UID}:{GID}"),', "unit/adapters/docker/test_docker_command_line.py::test_the_executor_has_no_network_no_capability_and_no_writable_root", without='*("--network", "host", "--ipc", "private", "--user", f"{UID}:{GID}"),'),
        done("a program is user 1001", "model/program/image.py", "UID: Final = 1001", "unit/adapters/docker/test_docker_command_line.py::test_the_executor_has_no_network_no_capability_and_no_writable_root", without="UID: Final = 0"),
        done("a program writes to `work` and `out` alone", "adapters/process/payload.py", '_OUT: Final = "/workspace/out"', "unit/adapters/process/test_process_executor.py::test_nothing_of_the_tree_can_be_written_but_the_runs_own_places"),
        done("calls of tools over a Unix socket, each with the token of the run", "programs/request_gate.py", "if not self._token or not hmac.compare_digest(_read_text(request.token).encode(), self._token):", "unit/programs/test_request_gate.py::test_another_token_is_refused", without="if False:"),
        done("only granted tools answer a program", "programs/host.py", "if tool_id not in self._allowed:", "unit/programs/test_host.py::test_a_tool_that_this_run_was_not_granted_is_refused", without="if False:"),
        done("orchestration is no tool of a program", "programs/host.py", "if not tool.spec.in_exec:", "unit/programs/test_host.py::test_a_tool_that_is_not_for_programs_is_refused_by_name_with_what_to_do_instead", without="if False:"),
        done("the text of a program runs unchanged, as `user_code.py`", "programs/code.py", "    _check_clean(code)\n", "unit/programs/test_code.py::test_a_leftover_of_the_generation_is_found_where_it_stands", "a text that cannot run as it stands is refused", without=""),
        done("backends `docker` (`split`, `combined`) and `process`", "adapters/docker/command_line.py", 'if request.profile.container_strategy == "split"', "unit/adapters/docker/test_docker_command_line.py::test_a_combined_run_is_one_container_with_the_limits_of_both", without="if True"),
        done("backend `fargate`", "loop/programs/program.py", 'if request.profile.placement != "remote":\n        return replace(attempt.step, route="execute", attempt=0, error=None)', "contract/test_task_faults.py::test_a_run_that_ends_well_is_collected_and_nothing_of_its_task_is_left", "run in Docker and on the emulator, in no AWS account yet", without='if True:\n        return replace(attempt.step, route="execute", attempt=0, error=None)'),
        done("the inputs of a task and its outputs lie in the store, with their hashes", "programs/packed_files.py", "        if found != sha256:", "unit/programs/test_packed_files.py::test_bytes_that_are_not_those_of_the_report_are_refused", without="        if False:"),
        done("a task is handed its launch by a secret, which it reads once", "loop/programs/remote.py", "secret=secret,", "unit/loop/programs/test_remote.py::test_the_state_gets_names_only", without="secret=_render_handover(attempt, request),"),
        done("the secret of a task is deleted when its run is settled", "loop/programs/program.py", "            give_back(attempt.ports, request, reported=reported)", "contract/test_task_faults.py::test_a_run_that_ends_well_is_collected_and_nothing_of_its_task_is_left", without="            pass"),
        done("a task that is lost is stopped, and its secret swept", "loop/programs/remote.py", "        stopped = ports.tasks.stop(stale.ref, stale.cluster, NOT_NEEDED)", "contract/test_task_faults.py::test_a_run_whose_execution_was_ended_under_it_is_unverified_and_its_task_is_stopped", without="        stopped = 0"),
        done("heartbeat, budgets and partial outputs of a task", "loop/programs/make_outcome.py", 'return ("timeout", TIMED_OUT) if name == "States.Timeout" else (UNVERIFIED, MAYBE)', "contract/test_task_faults.py::test_a_run_whose_state_ran_out_of_time_is_a_timeout", without="return (UNVERIFIED, MAYBE)"),
        different("a task is polled until it has stopped (`describe_tasks`)", "it tells the state that waits for it, and the event of its end does if it cannot", "loop/programs/remote.py", "def end_wait"),
        different("Redis, Postgres and the model's key in a task", "its tools read the log that came with the run; no key leaves the functions", "model/program/handover.py", "class Parcel"),
        different("`/workspace/bundles/<dir>`: rewritten paths of a bundle's tools", "a bundle is a package of the image, and its tools are imported by name", "bundle/parts.py", "def load_tools"),
        partial("`EXEC_PAYLOAD_SECRET_ID`, `RUNTIME_GLOBALS_JSON`, `RUNTIME_TOOL_MODULES`", "model/program/handover.py", "EXEC_PAYLOAD_SECRET_ID", "contract/test_duty.py::test_a_handover_that_is_gone_or_going_is_not_found", "the first with our prefix, for a task; the others have no variables: what they would hold is in the parcel of the run"),
        done("`BUNDLE_ID`", "adapters/sandbox/payload.py", '"bundle_id": request.bundle,', "contract/test_executor.py::test_of_the_environment_of_the_host_nothing_is_seen", "made in `exec_task/executor/main.py`"),
        done("`BUNDLE_ROOT`", "loop/programs/remote.py", "bundle=dict(read_bundle_files(request.bundle)),", "unit/loop/programs/test_program_bundle.py::test_a_task_is_handed_the_readable_files_of_its_bundle", "a read-only copy, without files that may hold secrets, in every backend", without=""),
        done("`WORKDIR`, `OUTPUT_DIR`, `EXECUTION_ID`, `AGENT_IO_CONTEXT`", "adapters/sandbox/payload.py", '"exec_id": request.exec_id,', "unit/exec_task/executor/test_main.py::test_the_environment_of_a_program_is_a_list_of_ours", "made in `exec_task/executor/main.py`"),
        done("`execution.runtime`: `profiles`, a selector, precedence", "bootstrap/runtime_profile.py", "        merged |= source.profiles.get(chosen, NOTHING)", "unit/bootstrap/test_runtime_profile.py::test_what_stands_beside_the_profiles_overrides_the_chosen_one", without="        pass"),
        done("`mode`, `enabled`", "bootstrap/runtime_profile.py", 'enabled = merged.get("enabled", True)', "unit/bootstrap/test_runtime_profile.py::test_what_is_not_enabled_runs_nothing", without="enabled = True"),
        done("`image`, `container_strategy`, `network_mode`, `cpus`, `memory`, `extra_args`", "bootstrap/runtime_profile.py", "fields = {field: merged[field] for field in _PROFILE_FIELDS if field in merged}", "unit/bootstrap/test_runtime_profile.py::test_a_docker_profile_is_read_whole", without="fields = {}"),
        done("`py_code_exec_container_strategy`", "bootstrap/runtime_profile.py", 'ALIASES: Final = {"py_code_exec_container_strategy": "container_strategy"}', "unit/bootstrap/test_runtime_profile.py::test_the_older_names_are_understood_and_count_less", without="ALIASES: Final[dict[str, str]] = {}"),
        done("`cluster`, `task_definition`, `container_name`, `subnets`, `security_groups`, …", "bootstrap/runtime_profile.py", "task=replace(default.task, **tasks)", "unit/bootstrap/test_runtime_profile.py::test_a_configuration_for_aws_is_understood_and_kept", without="task=default.task"),
        done("`max_file_bytes`, `max_exec_workspace_delta_bytes`, `max_workspace_bytes`, `workspace_monitor_interval_s`", "bootstrap/runtime_profile.py", "fields = {field: merged[key] for key, (field, _) in LIMITS.items() if key in merged}", "unit/bootstrap/test_runtime_profile.py::test_the_platform_limits_and_the_bundle_limits_more_strongly_key_by_key", without="fields = {}"),
        done("five descriptors; `get_settings`, `get_plain`", "bundle/descriptor_set.py", "return default if found is None else found", "unit/bundle/test_descriptor_set.py::test_a_tool_reads_settings_by_path", without="return default"),
        done('`get_secret(…)`, and `get_secret("b:…")` of the bundle', "bundle/descriptor_set.py", "path.removeprefix(OF_BUNDLE)) if path.startswith(OF_BUNDLE) else (whole, path)", "unit/bundle/test_descriptor_set.py::test_a_tool_reads_secrets_by_path", without="path.removeprefix(OF_BUNDLE)) if False else (whole, path)"),
        done("`descriptor_payload_scope`: `active_bundle`, `all`", "bundle/descriptor_set.py", 'kept = {**(read.get("bundles") or {}), "items": [item] if item else []}', "unit/bundle/test_descriptor_set.py::test_only_the_active_bundle_goes_elsewhere", "`active_bundle` if nothing is said", without='kept = dict(read.get("bundles") or {})'),
        done("descriptors and secrets for tools called in a round, as for those of programs", "loop/attempt.py", "services=self.agent.services,", "unit/loop/test_tool_services.py::test_a_tool_of_a_round_reads_the_same_settings_as_one_of_a_program", without=""),
        done("the model for tools called in a round, as for those of programs", "bootstrap/loop_app.py", "return self.app.given or self.app.provider_model()", "unit/loop/test_tool_services.py::test_a_tool_of_a_round_asks_the_model_as_one_of_a_program_does", without="return None"),
        done("one envelope, whatever failed and wherever it ran: `ok`, `artifacts`, `error`, `report_text`, `user_out_tail`, `runtime_err_tail`", "programs/envelope.py", "user_out_tail=tail(run.program_log, USER_TAIL_CHARS),", "unit/programs/test_envelope.py::test_long_logs_are_kept_by_their_ends", without='user_out_tail="",'),
        done("the primary error: the run, then missing files, then broken ones", "programs/envelope.py", 'code, message = "missing_output_files", f"missing or empty: {_names(missing)}"', "unit/programs/test_envelope.py::test_the_programs_failure_comes_before_missing_files_and_those_before_broken_ones", without='code, message = "artifact_validation_failed", f"missing or empty: {_names(missing)}"'),
        done("a report that the model reads", "programs/envelope.py", "return replace(envelope, report_text=render_report(envelope, request.turn))", "unit/programs/test_blocks.py::test_the_model_reads_the_report_the_files_and_the_previews", without="return envelope"),
        done("a contract of files, checked before the run and after it", "programs/outputs.py", 'return _failed(verdict, "missing_file", "the program did not write it")', "unit/programs/test_outputs.py::test_a_file_that_is_not_there_and_one_without_bytes_are_missing", without='return _failed(verdict, "empty_file", "the program did not write it")'),
        done("a program that names files of other turns is told to pull them first", "programs/code.py", "    absent = find_absent(code, turn=turn, present=present)", "unit/programs/test_code.py::test_a_file_of_another_turn_that_is_not_there_has_to_be_pulled", without="    absent: tuple[Reference, ...] = ()"),
        done("failures of start, time and restore have codes of their own", "loop/programs/make_outcome.py", "if name in (UNSTARTED, REFUSED) or name.startswith(_OF_LAUNCH):", "unit/loop/programs/test_make_outcome.py::test_a_task_that_was_not_started_is_named_with_its_cause", without="if False:"),
    ),
    "Files and hosting": (
        partial("attachments `fi:<turn>.user.attachments/<name>`, `…external.<kind>.attachments/…`", "model/path.py", "attachments", "unit/rendering/test_inbound.py::test_every_file_that_came_is_found_at_its_path_and_lies_in_the_workspace", "of events whose files a service stored, or a client uploaded; `send` names none yet"),
        done("`MODALITY_MAX_IMAGE_BYTES`, `MODALITY_MAX_DOC_BYTES`", "settings.py", "MODALITY_MAX_IMAGE_BYTES", "unit/tools/read/test_attach.py::test_a_picture_is_never_sent_with_more_bytes_in_base64_than_the_setting", "of what a request has, and of an upload"),
        partial("`MESSAGE_MAX_BYTES`", "preflight/judge_file.py", "if size_bytes > (most := _max_bytes(mime, limits)):", "unit/preflight/test_judge_file.py::test_a_file_of_the_largest_size_is_taken_and_one_byte_more_is_not", "of an uploaded file; a websocket message has the gateway's limit"),
        done("`APP_AV_SCAN` and the preflight of uploads", "ingress/upload.py", "def _judge_bytes(", "unit/ingress/test_upload.py::test_what_the_scanner_does_not_call_clean_is_refused", "the preflight is always on"),
        done("accepted types of uploads: PDF, `.docx`, `.pptx`, `.xlsx`, images, text", "preflight/judge_file.py", "    if not _is_taken(mime):", "unit/preflight/test_judge_file.py::test_it_is_refused", without="    if False:"),
        done("limits of uploads: 500 pages of a PDF; entries, size and ratio of a ZIP; 10 MB of text", "preflight/judge_pdf.py", "    if pages > PAGES_MAX:", "unit/preflight/test_judge_file.py::test_it_is_refused", without="    if False:"),
        done("a verdict on an upload stands, whatever is done twice", "adapters/memory/upload/quarantine.py", "if not self._rows[row].is_final:", "unit/ingress/test_upload.py::test_a_verdict_stands_whatever_is_posted_after_it", without="if True:"),
        planned("`ConversationStore.put_attachment`", "`EventSource.store_attachment` stores the files of a service"),
        done("internal files are kept and not offered, external ones are offered to the user", "events/derive_round.py", "files = [_file(block, entry.call_id) for block in entry.blocks if is_offered(block)]", "unit/events/test_derive.py::test_nothing_internal_leaves", without="files = [_file(block, entry.call_id) for block in entry.blocks if block.body]"),
        planned("hosted URLs and resource names (`ef:`)"),
        planned("`hosting.get_artifact_url`, `POST /by-rn`", "a client is told a file's path, and there is no address to load it from"),
        done("a project lives on in `files/`: the fold is its manifest", "timeline/workspace.py", "def fold_workspace", "unit/timeline/test_workspace.py::test_the_workspace_is_what_a_disk_would_hold"),
        done("`AI_REACT_WORKSPACE` `custom` and `git`", "settings.py", "AI_REACT_WORKSPACE", "unit/loop/test_kept_project.py::test_without_the_setting_nothing_is_saved_and_git_is_not_loaded"),
        done("git workspaces: each turn that ended well is a commit, with a version ref; deleted files are gone", "timeline/workspace.py", "path in deleted or path in folders", "unit/log/test_versions.py::test_what_a_program_deleted_is_gone_from_the_next_commit", "refs without the user, who is one to a conversation; a `.gitignore` leaves nothing out; a pull reads stored bytes, not git", without="path in folders"),
        done("`stepline workspace clone`", "log/versions.py", "return validate_path_element_ntfs(segment) and validate_path_element_hfs(segment)", "unit/local/command/test_workspace_command.py::test_a_stored_commit_cannot_name_a_file_outside_or_one_of_gits_own", without="return True"),
        different("the workspace on the disk of a worker", "files lie in the store under their hashes, and are laid out for a run", "timeline/workspace.py", "def fold_workspace"),
    ),
    "Citations and sources": (
        done("`[[S:1]]`, `[[S:1,3]]`, `[[S:2-4]]`", "protocol/citation/token.py", "ranges.append((max(first, 1), last))", "unit/protocol/citation/test_citation_stream.py::test_a_token_becomes_its_links", without="ranges.append((first, first))"),
        done("a citation is told from a link of the text's own", "protocol/citation/hyperlink.py", 'return f\'{url} "S:{source.sid}"\' if url else ""', "unit/protocol/citation/test_citation_stream.py::test_a_token_becomes_its_links", without="return url"),
        done("a citation as the address of a link is told from a link", "protocol/citation/hyperlink.py", "    if not titled:\n", "unit/protocol/citation/test_citation_stream.py::test_a_citation_as_the_address_of_a_link_is_told_from_a_link", without="    if True:\n"),
        done("pool rows `sid`, `title`, `url`, `source_type`, `published_time_iso`, `favicon_url`", "timeline/sources_pool.py", "title=source.title.strip()[:TITLE_CHARS],", "unit/timeline/test_sources_pool.py::test_a_row_is_cut_to_what_one_row_may_take", without='title="",'),
        done("`objective_relevance`", "adapters/corpus.py", "objective_relevance=None if judged is None else round(judged, 3),", "unit/tools/web/test_web_search.py::test_a_page_is_judged_by_the_objective_where_the_engine_can", "by the collection; Brave, Tavily and SearXNG are told no objective", without="objective_relevance=None,"),
        done("numbers that never change, in all turns of a conversation", "timeline/sources_pool.py", "        sid = known.get(key, 0)", "unit/timeline/test_sources_pool.py::test_a_known_source_keeps_its_number_whatever_it_proposes", without="        sid = 0"),
        done("sources merged by their addresses, or by their paths", "model/source.py", 'port = "" if parts.port in (None, _PORTS[parts.scheme]) else f":{parts.port}"', "unit/model/test_source.py::test_what_leads_to_the_same_page_is_spelt_one_way", without='port = f":{parts.port}" if parts.port else ""'),
        done("of files only images are sources", "timeline/sources_pool.py", 'return bool(source.path) and source.mime.startswith("image/")', "unit/timeline/test_sources_pool.py::test_the_pool_takes_pages_what_a_person_entered_and_images", without="return bool(source.path)"),
        done("only what lies on the web, or is a document of the agent, is a citation for clients", "events/derive_close.py", "texts = [source for source in entry.citations if _is_text(source)] if ok else []", "unit/events/test_derive_close.py::test_only_what_lies_on_the_web_is_a_citation", without="texts = list(entry.citations) if ok else []"),
        partial("images of attachments and programs as sources", "programs/returned_sources.py", "def run_sources", "unit/loop/test_returned_sources_logged.py::test_a_program_brings_the_sources_of_its_tools_and_its_images", "those of programs and `react.write`, not those of attachments"),
        done("sources of a skill (`sources.yaml`) join the pool, its citations are renumbered", "tools/context.py", "    cited = context.cite(replace(row, sid=0) for row in rows)", "unit/bundle/skills/test_skill_reads.py::test_sources_of_a_skill_join_the_pool_and_its_text_cites_their_numbers", without="    cited = context.cite(row for row in rows)"),
        done("`sources_used` of answers, files and searches", "timeline/turn_blocks.py", "sids = [sid for sid in cited_sids(text) if sid in known]", "unit/timeline/test_turn_blocks.py::test_an_answer_names_the_sources_it_uses_each_its_own", without="sids = cited_sids(text)"),
        done("`sources_used` of a turn", "timeline/export.py", '"sources_used": _used(batches, blocks),', "unit/timeline/test_export.py::test_a_turn_uses_the_sources_that_its_files_cite_too", without='"sources_used": [],'),
        done("a compact form of each source in the timeline's index text", "timeline/export.py", '"text": source.text[:TEXT_CHARS],', "unit/timeline/test_export.py::test_the_pool_is_a_document_of_its_own", without='"text": "",'),
    ),
    "Memory, knowledge, conversations, feedback": (
        done("semantic search of past turns, score by 1 + recency, half-life 7 days", "tools/memory/recall.py", "score=hit.score * (1 + rec),", "unit/tools/memory/test_memsearch.py::test_of_two_equals_the_newer_one_comes_first_and_its_score_says_why", without="score=hit.score,"),
        done("ordinal, temporal and timeline search of past turns, from the log alone", "tools/memory/turn_catalogue.py", "if turn.closed and window.holds(turn.started_at)", "unit/tools/memory/test_turn_catalogue.py::test_bounds_without_a_query_list_what_began_between_them_and_number_that", "of the user's other conversations the last 20 are looked at, and a warning says if there are more", without="if turn.closed"),
        done("`react.memsearch`: `query`, `targets`, `mode`, `scope`, `ordinal`, `from`, `to` and their other names, `order`, `top_k`, `days`", "tools/memory/memsearch.py", "lists = given in LISTING_MODES or ordinal > 0 or (bounded and not query)", "unit/tools/memory/test_turn_catalogue.py::test_a_turn_is_found_by_its_number", "`plans` and `sources` are targets, too; `mode` without a meaning is a warning", without="lists = given in LISTING_MODES or (bounded and not query)"),
        done("`react.memsearch` without a query is an error of the call, and no end of the turn", "tools/memory/memsearch.py", "    if not lists and not query:", "unit/tools/memory/test_memsearch.py::test_a_search_without_a_query_is_an_error_that_can_be_mended", without="    if False:"),
        done("`scope` user: paths of the user's other conversations, `fi:conv_<id>.<turn>…`", "log/owned_conversations.py", "if not (tail.n and self.owner and tail.state.owner == self.owner):", "unit/tools/memory/test_foreign_paths.py::test_a_conversation_of_another_user_project_or_tenant_is_not_there", "not for programs, which see their own conversation only", without="if not tail.n:"),
        done("an index of messages, answers, summaries and notes", "timeline/memory_rows.py", "rows = [row for block in newest.values() for row in _block_rows(timeline, found, block)]", "unit/timeline/test_memory_rows.py::test_a_turn_has_its_prompt_answer_and_summary", "rows of turns that are over, found by words and by meaning", without="rows: list[MemoryRow] = []"),
        done("knowledge space (`ks:`): `knowledge_space_fn`, `knowledge_read_fn`", "bundle/parts.py", 'shelves["ks"] = knowledge_shelf(self.read)', "unit/bundle/test_parts.py::test_the_agent_searches_and_reads_what_its_bundle_knows", without="pass"),
        done("`knowledge.repo`, `ref`: a folder or a git repository", "local/knowledge/knowledge_source.py", "if not config.ref:", "unit/local/knowledge/test_knowledge_source.py::test_a_repository_beside_it_is_read_as_its_commit_has_it_and_without_one_as_it_stands", "fields of `knowledge.yaml` in the bundle's folder; built when the bundle is deployed, not when a function loads it", without="if True:"),
        done("`knowledge.docs_root`, `src_root`, `deploy_root`, `tests_root`", "local/knowledge/knowledge_source.py", 'f"{kind}/{rel}" if rel', "unit/local/knowledge/test_build_index.py::test_every_root_has_the_paths_of_its_kind", without="rel if rel"),
        done("`knowledge.validate_refs`", "local/knowledge/document_reference.py", "            total += 1", "unit/local/knowledge/test_document_reference.py::test_references_in_backticks_are_looked_up_in_the_source_and_among_the_documents", without="            continue"),
        done("an index is built once for a signature", "local/knowledge/build_index.py", "    if _is_current(home, file):", "unit/local/knowledge/test_build_index.py::test_what_is_equal_is_not_built_again", without="    if False:"),
        done("full-text search with weights for each field", "bundle/knowledge_index.py", '"title": 8.0,', "unit/local/knowledge/test_knowledge_search.py::test_a_word_in_a_title_counts_most", without='"title": 0.01,'),
        done("a document is cited by its path", "timeline/sources_pool.py", 'case "file" if source.path.startswith("ks:"):', "unit/bundle/test_parts.py::test_what_a_search_finds_is_cited_by_its_number", "the design has http(s) sources alone", without='case "file" if False:'),
        done("namespace resolvers of a bundle: paths of its own, the same in a process and deployed", "tools/context.py", "if resolve := self.resolvers.get(family):", "handlers/test_deployed_bundle.py::test_it_gives_the_same_log_and_the_same_blocks_in_a_process_and_in_the_functions", "`resolvers` of the workflow; the function gets the user and the secrets", without="if False:"),
        done("a physical path for what a resolver finds, which a program opens", "tools/pull.py", "                made.append(file)\n", "unit/bundle/namespaces/test_namespace_resolver.py::test_a_pulled_path_is_a_file_that_programs_and_searches_find", "`react.pull` makes the file; the design's function is called by the program", without=""),
        done("a resolver has limits of size and time", "bundle/namespaces/namespace_resolver.py", "            _check_size(found, resolver.max_bytes)\n", "unit/bundle/namespaces/test_namespace_resolver.py::test_what_goes_wrong_is_told_to_the_model_by_its_code", without="            pass\n"),
        done("`on_bundle_load`, once in a process", "bootstrap/loop_app.py", "        self.loads.once(parts.on_load, services)\n", "handlers/test_deployed_bundle.py::test_it_gives_the_same_log_and_the_same_blocks_in_a_process_and_in_the_functions", without="\n"),
        done("`pre_run_hook`", "loop/hooks/run_hook.py", '("pre_run_hook", hooks.pre_run_hook),', "handlers/test_deployed_bundle.py::test_it_gives_the_same_log_and_the_same_blocks_in_a_process_and_in_the_functions", "a static method that takes one object", without='("pre_run_hook", None),'),
        partial("list of a user's conversations (`GET /conversations/{tenant}/{project}`)", "ports/log.py", "def conversations", "contract/test_log.py::test_conversations_are_the_users_own_newest_first", "in the log's port and on the command line; no HTTP endpoint"),
        partial("`POST …/search` of a user's conversations", "api/memory_search.py", "conversations=dict(_conversations(call, hits)),", "unit/api/test_memory_search.py::test_the_older_spelling_finds_the_same", "`GET /v1/search` has pages and marked excerpts; a query without a word is refused, and of `weights` `recency` counts"),
        done("a search finds nothing of another user's", "api/memory_search.py", '        replace(call, path={**call.path, "conversation": asked.conversation}).tail()\n', "unit/api/test_foreign.py::test_anothers_conversation_is_answered_like_one_that_is_not_there", without="        pass\n"),
        done("a typed client of the HTTP API, made from its table", "local/client/api_transport.py", "retries=False, redirect=False", "unit/local/client/test_api_transport.py::test_a_redirect_is_handed_back_and_not_followed", without="retries=1"),
        done("`POST …/fetch`, with the conversation in the path or in the body", "api/project_conversations.py", '"conversation": call.body.conversation_id', "unit/api/test_project_conversations.py::test_both_forms_of_fetch_give_the_same_texts", without='"conversation": ""'),
        done("`POST …/turns-with-feedbacks`", "api/project_conversations.py", "        if not one.withdrawn:", "unit/api/test_project_conversations.py::test_turns_with_feedback_have_all_of_it_that_was_not_withdrawn", without="        if True:"),
        done("`POST …/feedback/conversations-in-period`: both ends count, a cursor by key", "log/rated_conversations.py", "[one.place for one in looked[row.lane][-1:]] == [row.place]", "unit/api/test_feedback_endpoints.py::test_each_conversation_is_on_one_page_even_if_it_is_rated_on_many_days", "a user's own conversations, for admins the project's", without="True"),
        done("`POST …/turns/{turn_id}/feedback` `{reaction, text, ts}`", "api/feedback.py", "given_at=call.body.ts", "unit/api/test_feedback_endpoints.py::test_the_older_spelling_says_what_became_of_it", "`ts` is kept and orders nothing; also `PUT /v1/…/feedback`, the message `feedback`, `/feedback` in the chat", without='given_at=""'),
        done("one feedback of a user a turn, replaced by a newer one", "rendering/turn_facts.py", 'return f"{entry.turn}/{entry.origin}"', "unit/ingress/test_feedback_properties.py::test_of_each_turn_and_origin_one_feedback_counts_however_it_comes_between_turns", without='return f"{entry.turn}/{entry.at}"'),
        done("`null` clears it, and the model reads that it was cleared", "model/entry.py", '("withdrawn" if self.withdrawn else "none")', "unit/ingress/test_feedback.py::test_a_newer_word_takes_the_place_of_an_older_one", without='"none"'),
        done("feedback `ok`, `not_ok`, `neutral`, of users and machines, each kept by its origin", "adapters/memory/log.py", "self._feedback.pop((lane.key(), entry.turn, entry.origin), None)", "unit/ingress/test_feedback.py::test_each_origin_has_its_own_newest_word", "a row a turn and origin, put with the batch", without="pass"),
        done("machine feedback of a bundle, additive", "bundle/hook.py", 'origin="machine"', "unit/loop/test_hooks.py::test_behind_the_close_it_rates_the_turn_as_a_machine_and_nowhere_else", "`rate` in `post_run_hook`; over HTTP for clients that sign in as admins", without='origin="user"'),
        done("a machine says something with words and a confidence of 0.7 at least", "ingress/feedback.py", "not CONFIDENCE_MIN <= (opinion.confidence or 0.0) <= 1", "unit/ingress/test_feedback.py::test_a_machine_that_is_not_sure_or_says_nothing_is_refused", without="False"),
        done("feedback is an event at its turn, on every device", "events/derive.py", 'return [make_event(given, entry.at, entry.turn, "completed")]', "unit/ingress/test_rate_message.py::test_a_second_device_hears_of_it", without="return []"),
        done("satisfaction rate `ok / (ok + not_ok + neutral)`", "log/rated_conversations.py", "rated = ok + not_ok + neutral", "unit/api/test_feedback_endpoints.py::test_satisfaction_is_ok_among_all_reactions_and_nothing_divides_by_nothing", "`GET /v1/feedback`, of users and of machines; `null` without any", without="rated = said.total()"),
    ),
    "At home on AWS": (
        done("any OpenID Connect issuer; a Cognito pool where none is named", "adapters/oidc.py", 'case "id" if is_named:', "security/test_identity.py::test_a_bad_token_opens_no_websocket", "the pool is in `stacks/identity.py`", without='case "id":'),
        done("tenant, project and user come from the token alone", "ingress/access.py", "if (fresh.tenant, fresh.project, fresh.user) != (old.tenant, old.project, old.user):", "unit/ingress/test_receive.py::test_a_ticket_of_somebody_else_renews_nothing", without="if False:"),
        done("a conversation of somebody else looks like one that is not there", "delivery/resume.py", "    check_owner(tail, user)\n", "unit/delivery/test_resume_client.py::test_a_foreign_conversation_looks_like_one_that_does_not_exist", without="\n"),
        done("`POST /v1/socket-tickets`", "ingress/access.py", "    if shown.ticket:\n", "handlers/test_authorizer.py::test_a_ticket_opens_a_websocket_for_whom_it_was_given", without="    if False:\n"),
        done("message `auth` renews a connection; expiry counts with every message and for listening", "ingress/access.py", "ports.subscriptions.renew(connection, fresh)", "unit/ingress/test_receive.py::test_a_ticket_of_a_later_token_renews_a_connection", without="pass"),
        done("messages a minute for each user", "ingress/access.py", "if ports.rate.count(principal, minute) > limit:", "unit/ingress/test_receive.py::test_beyond_the_limit_a_message_does_not_reach_the_log_and_is_told_when_to_come_again", without="if ports.rate.count(principal, minute) < 0:"),
        done("`stepline deploy`, `destroy`, `doctor --aws`", "local/cloud/deploy.py", "def deploy", "unit/local/cloud/test_deploy_command.py::test_a_stage_is_looked_at_shown_asked_for_deployed_and_remembered"),
        done("formats carry a version", "model/batch.py", "    if version > FORMAT:", "unit/model/test_batch.py::test_a_batch_of_a_format_to_come_is_left_to_those_who_read_it", without="    if False:"),
        done("a process that dies at any write loses nothing and does nothing twice", "loop/act.py", 'if effect_of(attempt.agent.registry, action.tool_id) != "once":', "unit/loop/test_act.py::test_only_an_effect_that_must_not_repeat_is_announced_first", without="if True:"),
    ),
    "Bundles": (
        done("an agent bundle, the same in a process and deployed", "bundle/assembly.py", "hooks=parts.hooks,", "handlers/test_deployed_bundle.py::test_it_gives_the_same_log_and_the_same_blocks_in_a_process_and_in_the_functions", "by `STEPLINE_BUNDLE`", without=""),
        done("`bundle_id`: several bundles in one deployment", "ingress/admit.py", "bundle = tail.state.bundle if tail.n else named", "unit/ingress/test_chosen_bundle.py::test_a_later_message_may_name_the_same_one_and_none_but_no_other", "`bundle` of a conversation's first message; it never changes", without="bundle = named"),
        done("`post_run_hook(state, result)`", "bundle/workflow.py", "return Hooks(pre_run_hook=pre_run, before_round=before, post_run_hook=post_run)", "handlers/test_deployed_bundle.py::test_it_gives_the_same_log_and_the_same_blocks_in_a_process_and_in_the_functions", "it takes one object, whose `closed` is the result", without="return Hooks(pre_run_hook=pre_run, before_round=before)"),
        done("a hook runs at most once, whatever dies", "loop/hooks/run_hook.py", "if timeline.state.running == call:", "handlers/test_deployed_bundle.py::test_a_function_that_dies_in_a_hook_does_not_run_it_again", without="if False:"),
        done("what cannot run deployed is an error at deploy", "bundle/deployable.py", "if problems := check_deployable(workflow):", "unit/bundle/test_deployable.py::test_a_bundle_that_functions_would_leave_a_part_of_out_is_refused", without="if problems := []:"),
        done("a bundle's requirements become a layer", "local/install/requirement_lock.py", "[flag for one in read_requirements(own[0])", "unit/local/install/test_requirement_lock.py::test_what_a_package_needs_is_locked_with_it_and_what_the_functions_have_is_left_out", "of the functions that load the bundle; the image of programs has them, too", without="[flag for one in ()"),
        done("the model service of a tool is paid by the turn", "loop/settle_action.py", "usage=sum_usages(context.usages) if context.usages else None,", "handlers/test_deployed_bundle.py::test_what_a_tool_asks_the_model_is_paid_by_its_turn", without="usage=None,"),
        done("`BaseWorkflow`, `build_react(scratchpad, tools_module, skills_module, knowledge_space_fn, knowledge_read_fn)`", "bundle/workflow.py", "search=blocking(knowledge_space_fn or cls._search(), events),", "unit/bundle/test_parts.py::test_the_agent_searches_and_reads_what_its_bundle_knows", without="search=blocking(cls._search(), events),"),
        done("`react.run(payload)`", "bundle/react.py", "        return result\n", "contract/test_workflow.py::test_a_message_is_answered_with_what_the_tools_found", without="        return None\n"),
        done("`ctx_browser.load_timeline`, `sources_pool`", "bundle/browser.py", "return self._timeline.sources", "unit/bundle/test_browser.py::test_the_pool_is_there_once_the_timeline_is_loaded", without="return {}"),
        done("`ctx_browser.contribute`: blocks that stay", "bundle/browser.py", "        if new:\n", "contract/test_workflow.py::test_what_a_bundle_contributes_stays_and_what_it_announces_does_not", without="        if False:\n"),
        done("`ctx_browser.announce`: lines that do not", "bundle/browser.py", "        self._announced = said", "unit/bundle/test_browser.py::test_an_announcement_replaces_the_one_before_and_forges_no_structure", without="        self._announced += said"),
        done("`ctx_browser.timeline(include_sources, include_announce, force_sanitize, cache_last)`", "bundle/browser.py", "if include_sources else []", "unit/bundle/test_browser.py::test_what_the_model_reads_is_rendered_with_what_was_asked_for", without="if True else []"),
        done("`ctx_browser.persist_timeline`", "bundle/browser.py", "        put[export.kind] = Body(", "unit/bundle/test_browser.py::test_exports_lie_in_the_store_under_what_they_say", without="        put[export.kind.upper()] = Body("),
        done("`ctx_client.search(query, kind, limit)`, a `ContextRAGClient`", "tools/memory/recall.py", "limit=limit or top_k,", "unit/bundle/test_browser.py::test_a_bundle_searches_what_was_said_and_fetches_it", "also `scope`, `days`, `top_k`, `half_life_days`; no tags to filter by, and nothing is saved by it: the log is what is indexed. A tool calls `search_memory(context, …)`", without="limit=1,"),
        done("`ctx_client.fetch_ctx(paths)`", "bundle/browser.py", "return await in_thread(self._runtime, self._fetch, list(refs))", "unit/bundle/test_browser.py::test_one_path_and_a_list_of_paths_are_fetched_whole", without="return await in_thread(self._runtime, self._fetch, list(refs)[:1])"),
        done("`hosting.get_artifact_url(path)`", "tools/context.py", "body = file if isinstance(file, Body) else self._body(str(parse_path(file)))", "unit/loop/test_tool_services.py::test_a_tool_gets_the_address_of_a_file_of_its_conversation_and_of_no_other", "`artifact_url` of a tool's and a hook's context; a signed address instead of a resource name", without='body = Body("out/x", "", 0)'),
        done("skills (`sk:`): `SKILL.md` folders, `CUSTOM_SKILLS_ROOT`, `SKn`, `react.read`", "bundle/parts.py", "merge_skills(load_folder(BUILT_IN), self._folder(module), own)", "unit/bundle/skills/test_skill_reads.py::test_a_turn_reads_a_skill_and_then_its_file", "a folder of another product is read unchanged; `compact.md` is a file like any other, and of YAML files only `skill.yaml` is a skill", without="merge_skills(load_folder(BUILT_IN), own)"),
        done("imports of a skill, read before it, each once", "tools/read/run.py", "        yield from (Request(path=path) for path in found.imports if path not in done)\n", "unit/bundle/skills/test_skill_reads.py::test_what_a_skill_imports_is_read_before_it_once_and_by_paths_of_its_own", "each at its own path, not within the text of the other", without=""),
        done("`tools.yaml`: a skill vanishes without the tools that it requires", "bundle/skills/skill_choice.py", "        and all(tool in tools for tool in skill.requires)\n", "unit/bundle/skills/test_skill_catalogue.py::test_built_in_skills_name_tools_that_there_are_and_vanish_without_them", "`role` and `why` are not listed", without=""),
        done("`AGENTS_CONFIG`", "bundle/skills/skill_choice.py", "_fits(skill, enabled) if enabled else", "unit/bundle/skills/test_skill_reads.py::test_the_consumers_of_the_descriptor_decide_for_reads_and_imports_too", "the agent is the consumer of its role's name; it holds for reads and imports too", without="True if enabled else True or"),
        done("hidden skills, and the namespace `internal`", "bundle/skills/skill.py", "        if self.is_listed:\n", "unit/bundle/skills/test_skill_reads.py::test_a_hidden_skill_is_read_and_told_by_a_path_that_names_nothing", without="        if True:\n"),
        done("`[SKILL CATALOG]`: sorted, within a budget, the same bytes", "bundle/skills/skill_catalogue.py", "room >= len(rows[fitting]) + 1", "unit/bundle/skills/test_skill_catalogue.py::test_many_skills_are_shortened_first_and_then_counted_and_all_stand_at_a_path", "a line a skill: path, description, size; no version, category or tags", without="True"),
        done("`store`", "model/path.py", 'return f"store/{lane.tenant}/{lane.project}/{owner}/', "unit/loop/test_hooks.py::test_what_one_hook_stores_another_turn_of_the_user_finds_and_nobody_else", "values by name, one set a user; `ctx_browser` reads turns, timelines and artifacts", without='return f"store/{lane.project}/{owner}/'),
        done("bundle properties, descriptor, defaults of its code, assembly, variable: the strongest place decides", "bootstrap/runtime_profile.py", "    for source in reversed(sources):", "unit/bootstrap/test_runtime_profile.py::test_each_key_comes_from_the_strongest_place_that_has_it", without="    for source in sources:"),
    ),
    "Settings of the design": (
        done("`AI_REACT_CONTEXT_MAX_TOKENS`", "bundle/overrides.py", 'props=("react.context.max_tokens",)', "unit/test_settings.py::test_the_bundle_bounds_a_request_before_the_assembly_and_both_before_the_variable", without="props=()"),
        done("`AI_REACT_READ_VISIBLE_MAX_TEXT_SYMBOLS`, `…_TOKENS`, `…_BYTES`, `…_CONTEXT_FRACTION`", "bootstrap/agent_choice.py", "context_fraction=settings.read_visible_context_fraction,", "unit/test_settings.py::test_a_read_never_takes_more_than_its_share_of_a_request", without="context_fraction=1.0,"),
        planned("`knowledge_read_visible_*`", "documents of a bundle are read within the limits of any other path"),
        done("`AI_REACT_EXEC_TEXT_PREVIEW_MAX_SYMBOLS`", "programs/outputs.py", "most=request.preview_chars", "unit/programs/test_outputs.py::test_the_cap_counts_characters", without="most=10**9"),
        different("`AI_REACT_TOOL_RESULT_PREVIEW_MAX_TEXT_SYMBOLS`", "12,000 characters, a constant: the layout's golden texts rest on it", "rendering/excerpt.py", "RESULT_PREVIEW_CHARS"),
        different("`cache_point_min_rounds`, `cache_point_offset_rounds`, `editable_tail_size_in_tokens`", "2, 4 and 2,000, constants", "context/rules.py", "editable_tail_tokens"),
        done("`PY_CODE_EXEC_IMAGE`, `…_TIMEOUT`, `…_NETWORK_MODE`, `…_CONTAINER_STRATEGY`", "settings.py", '"PY_CODE_EXEC_TIMEOUT", 600', "unit/test_settings.py::test_a_number_that_makes_no_sense_is_refused_with_its_bounds", without='"CODE_TIMEOUT", 600'),
        done("`FARGATE_*`, `EXEC_RUNTIME_MODE`, `EXEC_DESCRIPTOR_PAYLOAD_SCOPE`", "settings.py", '"FARGATE_SUBNETS"', "unit/bootstrap/test_choice.py::test_where_tasks_start_comes_from_the_settings_and_the_bundle_may_say_more", without='"TASK_SUBNETS"'),
        planned("`CHAT_MAX_MESSAGE_CHARS`, `SOURCES_POOL_MAX_BASE64_CHARS`, `EXEC_USER_LOG_MODE`", "no such choice: the gateway bounds a message, a row holds no bytes, a program's log is what it printed"),
    ),
}  # fmt: skip


NAMES: Final = (
    Name("a streaming endpoint, Socket.IO", "the messages `send`, `event`, `resume` of a websocket", "model/wire/client_message.py", "class Resume", "API Gateway holds the connection; a function that is idle costs nothing"),
    Name("`react.stream`, `react.file`", "`react.write`", "protocol/decision/call_check.py", "OLD_NAMES", "one tool with `channel` and `kind`; the older names are answered with the new one"),
    Name("`react.memory_read`", "`react.memsearch`", "protocol/decision/call_check.py", "react.memsearch", "the name of the newer seeds"),
    Name("`react.completion`", "`assistant.completion`", "timeline/turn_blocks.py", "assistant.completion", "the name of the newer seeds"),
    Name("`show_artifacts`, `show_skills`", "`react.read`", "tools/read/run.py", "react.read", "a read stays in the timeline, so the instructions and what a cache holds do not change"),
    Name("`[ACTIVE SKILLS]`, `[FULL CONTEXT ARTIFACTS]`", "the result of `react.read`", "tools/read/run.py", "def run_read", "the same: no section of the instructions changes from round to round"),
    Name("`[AVAILABLE COMMON TOOLS]`, `[AVAILABLE INFRASTRUCTURE TOOLS]`", "`[TOOLS]`", "tools/spec.py", "[TOOLS]", "one list; tools for programs stand under a heading of their own"),
    Name("coordinator, contract, slots", "`react.plan` and files in `outputs/`", "tools/plan.py", "react.plan", "one loop has no second agent to hand a contract to"),
    Name("`turn_<id>.slots.<name>`", "`fi:<turn>.outputs/<path>`", "model/path.py", "class FilePath", "every file stays and has its path, so no other name is needed"),
    Name("`turn_<id>.user.prompt.*`, `turn_<id>.assistant.completion.*`", "`ar:<turn>.user.prompt`, `ar:<turn>.assistant.completion`", "model/path.py", "class TurnPath", "the paths of the newer seeds"),
    Name("`sources_pool[SID,…]` in `show_artifacts`", "`so:sources_pool[1,3]`", "model/path.py", "class SourcesPath", "the path of the newer seeds; without `so:` it is read too"),
    Name("`is_wrapup_round`", "the reserved last round", "protocol/decision/body.py", "last_round_requires_answer", "a rule of the protocol holds where an instruction may not"),
    Name("`time_evidence_reminder`", "`[AUTHORITATIVE TEMPORAL CONTEXT (GROUND TRUTH)]` of ANNOUNCE", "context/announce.py", "AUTHORITATIVE TEMPORAL CONTEXT", "a date in the system part would end its cache every day"),
    Name("turn session journal, operational digest, session log summary", "the rendered timeline, and `ar:<turn>.react.turn.index`", "timeline/view.py", "react.turn.index", "one text that only grows is cached; a digest made anew in each round is not"),
    Name("`TURN MEMORIES`, `USER FEEDBACK`, `Budget Snapshot`, `FILES (CURRENT)` of the journal", "notes, feedback and ANNOUNCE; files in the index of a turn", "context/announce.py", "def render_announce", "each stands where it happened, or in what is made anew in each round"),
    Name("`OBJECTIVE`, `GATE`, the inventorization of a prompt in the journal", "`user.prompt` and `react.plan`", "tools/plan.py", "def run_plan", "a message is read as it was written; nothing sums it up before"),
    Name("`TURN SOURCES POOL`", "`[SOURCES POOL]`", "context/announce.py", "[SOURCES POOL]", "one pool for the whole conversation"),
    Name("`TurnView` of an earlier turn", "the card of its working summary, or its rows", "rendering/render_reduction.py", "PRUNED TURN DATA", "a reduction replaces text that stands, and its paths lead to the whole"),
    Name("`TurnLog`", "`artifact:turn.log`", "timeline/export.py", "artifact:turn.log", "made from the log on demand, and stored only as a document for others"),
    Name("`TurnScratchpad`", "the mapping `scratchpad` of a workflow", "bundle/workflow.py", "scratchpad", "what has to last is in the log"),
    Name("`ReactContext`", "`Timeline`, and `ContextBrowser` for bundles", "bundle/browser.py", "class ContextBrowser", "a fold of the log has no state of its own to lose"),
    Name("`ReactRound`, `ReactSolver`, `ReactStateV2`", "`decide` and `act`, `React`, `State`", "loop/decide.py", "def decide", "a round is several steps of a state machine, in functions that remember nothing"),
    Name("`ArtifactView`, builders of `layout.py`", "`Block`, and `Layout` for what the model reads of one", "rendering/layout.py", "class Layout", "data and its rendering are apart"),
    Name("`PlanSnapshot`", "`Plan`", "model/plan_steps.py", "class Plan", "each plan in the log is a snapshot"),
    Name("`iteration_index`", "`iteration`", "model/entry.py", "iteration: int", "one word for it in log, blocks and events"),
    Name("`create_cached_system_message`, `message_blocks`", "`Part` with `cache`", "ports/model.py", "class Part", "the adapter of a provider makes its messages"),
    Name("`ChatCommunicator`", "`ToolContext.emit`", "tools/context.py", "def emit", "what a tool says is in the log with its result, and told from there"),
    Name("`react_tools`", "the alias `react`", "adapters/sandbox/payload.py", "def plan_aliases", "a program calls a tool by the name that the model knows"),
    Name("`PrivilegedSupervisor`", "`SupervisorServer`", "adapters/sandbox/tool_server.py", "class SupervisorServer", "it has the rights of its step only"),
    Name("`EXEC_SNAPSHOT`, `containerOverrides.environment`", "the parcel of a run, named by a secret", "model/program/handover.py", "class Parcel", "an environment is readable by who may describe tasks, and has 8 KB"),
    Name("`…/runtime/exec-payloads/<exec_id>`", "`stepline/<stage>/exec/<ref>`", "model/program/handover.py", "def secret_name", "a call's id is unique in its turn only"),
    Name("`…_RUNTIME_ASSEMBLY_YAML_B64` and its like, `…_EXEC_PAYLOAD_SECRET_ID`", "the same behind `STEPLINE_`", "bundle/descriptor_set.py", "STEPLINE_RUNTIME_ASSEMBLY_YAML_B64", "the prefix is the product's"),
    Name("`AI_REACT_CACHE_KEEP_RECENT_TURNS`, `…_INTACT_TURNS`, `cache_ttl_seconds` as a variable", "`STEPLINE_KEEP_RECENT_TURNS`, `STEPLINE_KEEP_INTACT_TURNS`, `STEPLINE_CACHE_TTL_S`", "settings.py", "STEPLINE_KEEP_INTACT_TURNS", "units stand in names, and the prefix is the product's"),
    Name("`TOOLS_SPECS`", "`TOOLS` of a module", "bundle/parts.py", "TOOLS", "values that are checked when a bundle is loaded, not names of files"),
    Name("modules of streamers (`versatile_streamer`)", "`stream_with_channels` of the package", "bundle/generation/stream.py", "def stream_with_channels", "a public name instead of a place in a tree"),
    Name(
        "`react.search_files`",
        "`react.rg`",
        "protocol/decision/call_check.py",
        "react.search_files",
        "one search by name and by content; the older name is answered with the new one",
    ),
    Name(
        "`patch_failed:<rc>`, `patch_exec_failed:*`, `missing_artifact_name`, `unsafe_path`, `checkout_invalid_mode`",
        "`hunk_mismatch`, `path_*`, `bad_params`",
        "tools/workfiles/unified_diff.py",
        "class Mismatch",
        "no program `patch` is run; paths and parameters have their codes from the grammar and the schema",
    ),
    Name(
        "`source_not_materialized`, `checkout_requires_pull`",
        "none",
        "tools/workfiles/checkout.py",
        "A pull before it is",
        "a checkout names bodies of the store, so a round for the pull is spared",
    ),
)  # fmt: skip
"""Names of the design that have another one here."""


def render() -> str:
    """Return the page."""
    counts = Counter(term.status for area in AREAS.values() for term in area)
    told = ", ".join(f"{counts[status]} {status}" for status in get_args(Status))
    lines = [
        "# Parity",
        "",
        "Generated by `make docs` from `docs/build/parity.py`; a test keeps it in step.",
        "",
        "The terms of the design, where each one lives, and the test that fails without it. Modules are below",
        "`layers/runtime/python/stepline/`, tests below `tests/`.",
        "",
        "A term is *done*, *in part* (the note says what is missing), *not yet* (the note says what there is so far), or",
        "*different* on purpose (the note says why). A ✓ behind a test: `make soak` breaks the promise in a copy of the",
        "library, and sees that test fail.",
        "",
        f"Terms: {told}; {len(NAMES)} names that are different here.",
        "",
    ]
    for area, terms in AREAS.items():
        lines += [f"## {area}", "", "| term | status | module | test | note |", "|---|---|---|---|---|"]
        lines += [
            f"| {_cell(t.term)} | {t.status} | {_code(t.module)} | {_test(t)} | {_cell(t.note)} |"
            for t in terms
        ]
        lines.append("")
    lines += [
        "## Other names",
        "",
        "What the design, or an earlier version of the agent, has under another name.",
        "",
        "| there | here | module | why |",
        "|---|---|---|---|",
    ]
    lines += [f"| {n.old} | {n.new} | {_code(n.module)} | {_cell(n.reason)} |" for n in NAMES]
    return "\n".join([*lines, ""])


def _test(term: Term) -> str:
    return f"{_code(term.test)}{' ✓' if term.without is not None else ''}"


def _code(path: str) -> str:
    return f"`{path}`" if path else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
