import type { Plan } from "../../thread/thread.ts";
import { say } from "../../words/en/thread.ts";
import { useDesk } from "./desk.ts";

const doneSteps = (plan: Plan): number => plan.steps.filter((step) => step.status === "done").length;

/** The progress of a plan: `1 of 3`, with a word where the numbers are not enough. */
export function planProgress(plan: Plan): string {
  const progress = say.planStep(doneSteps(plan), plan.steps.length);
  if (!plan.current) return `${progress} · ${say.planSuperseded}`;
  return !plan.open && doneSteps(plan) < plan.steps.length ? `${progress} · ${say.planClosed}` : progress;
}

/** The change of a plan in a round: its new progress, and its current step. */
export function PlanLine({ planId }: { planId: string }) {
  const plan = useDesk().thread.plans.find((known) => known.planId === planId);
  if (!plan) return null;
  const step = plan.steps.find(({ status }) => status === "in_progress");
  return (
    <p class="remark-line">
      {say.plan} <span class="num">{planProgress(plan)}</span> {step && <bdi>{step.text}</bdi>}
    </p>
  );
}
