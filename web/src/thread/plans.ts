/** Plans: the newest version of each counts, and names the step that it changed. */

import type { ClientEvent } from "../client/index.ts";
import { flagOf, objectOf, textOf, textsOf, timeOf } from "./fields.ts";
import { changed, replaced } from "./share.ts";
import type { Plan, Round, Turn } from "./thread.ts";

const STATUSES = ["pending", "in_progress", "done", "failed"] as const;

export function planOf(event: ClientEvent): Plan {
  const { data } = event;
  const status = objectOf(data, "status");
  return {
    planId: textOf(data, "plan_id"),
    steps: textsOf(data, "steps").map((text, place) => ({ text, status: statusOf(textOf(status, String(place + 1))) })),
    current: flagOf(data, "current"),
    open: flagOf(data, "open"),
    turnId: event.turn_id,
    versions: 1,
    changed: null,
    at: timeOf(event.ts),
  };
}

function statusOf(word: string): Plan["steps"][number]["status"] {
  return STATUSES.find((one) => one === word) ?? "pending";
}

/** Add a version of a plan after the existing ones. */
export function withPlan(plans: readonly Plan[], plan: Plan): readonly Plan[] {
  const at = plans.findIndex((one) => one.planId === plan.planId);
  const before = plans[at];
  return before ? plans.with(at, after(before, plan)) : [...plans, plan];
}

/** Return the plan with an older version inserted before it. */
function after(before: Plan, plan: Plan): Plan {
  // The change of later versions is known already.
  const change = plan.versions === 1 ? changedStep(before, plan) : plan.changed;
  return { ...plan, versions: before.versions + plan.versions, changed: change };
}

/** Return the only step that differs; null if none does, or several do. */
function changedStep(before: Plan, plan: Plan): number | null {
  if (before.steps.length !== plan.steps.length) return null;
  const differing = plan.steps.flatMap((step, place) => {
    const old = before.steps[place];
    return old?.text === step.text && old.status === step.status ? [] : [place];
  });
  return differing.length === 1 ? (differing[0] as number) : null;
}

/** Record that a round changed a plan, and end the plan's draft. */
export function planChanged(turn: Turn, event: ClientEvent): Turn {
  const planId = textOf(event.data, "plan_id");
  const at = turn.rounds.findLastIndex((round) => round.decidedAt !== null);
  const round = turn.rounds[at];
  if (!round) return turn;
  const known = round.items.some((item) => item.is === "plan" && item.planId === planId);
  const items: Round["items"] = known ? round.items : [...round.items, { is: "plan", planId }];
  return changed(turn, { rounds: replaced(turn.rounds, at, { ...round, items, planDraft: null }) });
}
