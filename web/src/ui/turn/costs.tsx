/** The cost of a turn in dollars: its model calls, and the infrastructure around them. */

import { useEffect, useState } from "preact/hooks";
import { visible } from "../../markdown/index.ts";
import type { AwsCost, CostLine, Receipt, Usage, WholeReceipt } from "../../thread/thread.ts";
import { say } from "../../words/en/thread.ts";
import { formatQuantity, formatTokens, formatUsd } from "../../words/format.ts";
import { wordsOf } from "../../words/index.ts";
import { useDesk } from "./desk.ts";
import { sayUsd } from "./receipt_line.ts";

function readTokens(usage: Usage): number {
  return usage.inputTokens + usage.cacheReadTokens + usage.cacheWrite5mTokens + usage.cacheWrite1hTokens;
}

function ModelRow({ line }: { line: CostLine }) {
  const about = line.usage?.estimated ? `${say.about} ` : "";
  return (
    <tr>
      <th scope="row">
        {say.roles[line.role] ?? visible(line.role)} <small>{visible(line.model)}</small>
      </th>
      <td>{line.calls > 0 && say.calls(line.calls)}</td>
      <td>
        {line.usage && `${about}${formatTokens(readTokens(line.usage))} → ${formatTokens(line.usage.outputTokens)}`}
      </td>
      <td>{sayUsd(line.usd, line.priced) || say.noPrice}</td>
    </tr>
  );
}

function AwsRow({ cost }: { cost: AwsCost }) {
  return (
    <tr>
      <th scope="row">{say.aws[cost.what] ?? visible(cost.what)}</th>
      <td />
      <td>{formatQuantity(cost.quantity)}</td>
      <td>{formatUsd(cost.usd)}</td>
    </tr>
  );
}

type Asked =
  | { readonly is: "asking" }
  | { readonly is: "here"; readonly whole: WholeReceipt }
  | { readonly is: "refused"; readonly code: string };

/** The full receipt, requested when it is opened: infrastructure costs are counted after the turn's end. */
function useWhole(turnId: string): Asked {
  const { acts } = useDesk();
  const [asked, setAsked] = useState<Asked>({ is: "asking" });
  useEffect(() => {
    let shown = true;
    acts.readReceipt(turnId).then(
      (whole) => shown && setAsked({ is: "here", whole }),
      (error: unknown) => shown && setAsked({ is: "refused", code: (error as { code?: string }).code ?? "" }),
    );
    return () => {
      shown = false;
    };
  }, [turnId]);
  return asked;
}

/** Lines by role and model, those of AWS, and their total. */
export function Costs({ turnId, receipt }: { turnId: string; receipt: Receipt }) {
  const asked = useWhole(turnId);
  const whole = asked.is === "here" ? asked.whole : null;
  // If the turn's end is newer than the data of the API, its event provides the costs.
  const { lines, usd, priced } = whole && whole.lines.length > 0 ? whole : receipt;
  if (lines.length === 0 && !whole?.aws.length) return <Remarks asked={asked} />;
  return (
    <>
      <table class="costs">
        <caption>{say.costs}</caption>
        <thead>
          <tr>
            <th scope="col">{say.costOf}</th>
            <td />
            <th scope="col">{say.costHowMuch}</th>
            <th scope="col">{say.costUsd}</th>
          </tr>
        </thead>
        <tbody>
          {lines.map((line) => (
            <ModelRow key={`${line.role} ${line.model}`} line={line} />
          ))}
        </tbody>
        {whole && whole.aws.length > 0 && (
          <tbody>
            {whole.aws.map((cost) => (
              <AwsRow key={cost.what} cost={cost} />
            ))}
          </tbody>
        )}
        <tfoot>
          <tr>
            <th scope="row">{whole && whole.lines.length + whole.aws.length > 0 ? say.costAll : say.costModels}</th>
            <td />
            <td />
            <td>{sayUsd(usd + (whole?.awsUsd ?? 0), priced) || say.noPrice}</td>
          </tr>
        </tfoot>
      </table>
      <Remarks asked={asked} />
    </>
  );
}

function Remarks({ asked }: { asked: Asked }) {
  if (asked.is === "asking") return <p class="aside">{say.costsAsking}</p>;
  if (asked.is === "refused") return <p class="aside">{say.costsRefused(wordsOf(asked.code))}</p>;
  const { unreported, pricesOf } = asked.whole;
  return (
    <p class="key">
      {unreported > 0 && <span>{say.unreported(unreported)}</span>}
      {pricesOf && <span>{say.pricesOf(pricesOf)}</span>}
    </p>
  );
}
