/** The line below the input with the remaining amount; empty if there is no limit. */

import { visible } from "../../markdown/index.ts";
import { say } from "../../words/en/limits.ts";
import { formatUtc } from "../../words/format.ts";
import { useStore } from "../store/store.ts";
import type { Budget, Left } from "./budget.ts";

export function LeftLine({ budget }: { budget: Budget }) {
  const { lefts, stopped } = useStore(budget.store);
  if (stopped) return <p class="left stop-line">{say.stopped(visible(stopped))}</p>;
  if (lefts.length === 0) return null;
  return (
    <p class="left" title={lefts.map(endOf).find(Boolean)}>
      <span class="vh">{say.leftLabel}: </span>
      <span aria-hidden="true">{say.left} </span>
      {lefts.map(sayLeft).join(" · ")}
    </p>
  );
}

/** Return the remaining amount of one limit: `$0.42 of $5.00 today of the project`. */
export function sayLeft({ what, window, whose, left, of }: Left): string {
  const amount = say.amount[what];
  return [say.of(amount(left), amount(of)), say.unit[what], say.window[window], say.whose[whose]]
    .filter(Boolean)
    .join(" ");
}

function endOf({ endsAt }: Left): string {
  const at = Date.parse(endsAt);
  return Number.isNaN(at) ? "" : say.leftTitle(formatUtc(at));
}
