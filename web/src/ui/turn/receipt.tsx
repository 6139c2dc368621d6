/** The receipt of a turn: what each round read, wrote and cost, in tokens. */

import { type TokenStack, tokenStack } from "../../thread/select.ts";
import type { Bust, Round, Receipt as Total, Usage } from "../../thread/thread.ts";
import { say } from "../../words/en/thread.ts";
import { formatMs, formatNumber } from "../../words/format.ts";
import { Costs } from "./costs.tsx";

/** The four cache classes in order, each with the CSS class of its color. */
const classes = [
  ["read", "read"],
  ["written", "write"],
  ["plain", "plain"],
  ["output", "out"],
] as const;
const total = (parts: TokenStack): number => parts.read + parts.written + parts.plain + parts.output;
const tenth = (n: number): number => Math.round(n * 10) / 10;

export interface Segment {
  /** The CSS class of its color. */
  readonly name: (typeof classes)[number][1];
  readonly x: number;
  readonly width: number;
}

/** The bars of one line at a given length, with a gap of one between them; absent classes have none. */
export function segments(parts: TokenStack, perToken: number): readonly Segment[] {
  let x = 0;
  const bars: Segment[] = [];
  for (const [part, name] of classes) {
    if (parts[part] === 0) continue;
    const width = Math.max(parts[part] * perToken - 1, 1);
    bars.push({ name, x: tenth(x), width: tenth(width) });
    x += width + 1;
  }
  return bars;
}

const barLength = 400;

function Stack({ parts, perToken, bust }: { parts: TokenStack; perToken: number; bust: Bust | null }) {
  const notch = bust && Math.min(bust.expectedTokens * perToken, barLength - 2);
  return (
    <svg class="stack" viewBox={`0 0 ${barLength} 10`} preserveAspectRatio="none" aria-hidden="true">
      {segments(parts, perToken).map((bar) => (
        <rect key={bar.name} class={bar.name} x={bar.x} y="0" width={bar.width} height="10" />
      ))}
      {notch !== null && <rect class="notch" x={tenth(notch)} y="0" width="2" height="10" />}
    </svg>
  );
}

function RoundRow({ round, perToken }: { round: Round; perToken: number }) {
  const { usage, bust } = round;
  const parts = usage && tokenStack(usage);
  return (
    <>
      <tr>
        <td>{round.iteration + 1}</td>
        <td class="graph">{parts && <Stack parts={parts} perToken={perToken} bust={bust} />}</td>
        {parts ? (
          classes.map(([name]) => (
            <td key={name}>
              {usage.estimated && `${say.about} `}
              {formatNumber(parts[name])}
            </td>
          ))
        ) : (
          <td colSpan={4}>{say.noUsage}</td>
        )}
      </tr>
      {bust && (
        <tr class="bust">
          <td />
          <td colSpan={5}>
            {say.bust(bust.readTokens, bust.expectedTokens, say.bustReasons[bust.reason] ?? bust.reason)}
          </td>
        </tr>
      )}
    </>
  );
}

/** The percentage of the input that was read from the cache; null if nothing was read. */
export function cachedPercent({ read, written, plain }: TokenStack): number | null {
  const input = read + written + plain;
  return input === 0 ? null : Math.round((read / input) * 100);
}

function Totals({ receipt, usage }: { receipt: Total; usage: Usage }) {
  const parts = tokenStack(usage);
  const percent = cachedPercent(parts);
  const about = usage.estimated ? `${say.about} ` : "";
  return (
    <tfoot>
      <tr>
        <td />
        <td class="graph">
          {about}
          {say.units(receipt.weightedTokens)}
          {percent !== null && ` · ${say.cached(percent)}`}
        </td>
        {classes.map(([name]) => (
          <td key={name}>{formatNumber(parts[name])}</td>
        ))}
      </tr>
    </tfoot>
  );
}

export interface ReceiptProps {
  readonly label: string;
  readonly turnId: string;
  readonly receipt: Total;
  readonly rounds: readonly Round[];
}

export function ReceiptTable({ label, turnId, receipt, rounds }: ReceiptProps) {
  const largest = Math.max(...rounds.map((round) => (round.usage ? total(tokenStack(round.usage)) : 0)), 1);
  const hours = rounds.some((round) => (round.usage?.cacheWrite1hTokens ?? 0) > 0);
  return (
    <section class="receipt" aria-label={say.receipt(label)}>
      <table>
        <thead>
          <tr>
            <th scope="col">#</th>
            <td />
            {[say.read, say.write, say.plain, say.output].map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rounds.map((round) => (
            <RoundRow key={`${round.iteration}/${round.claim}`} round={round} perToken={barLength / largest} />
          ))}
        </tbody>
        {receipt.usage && <Totals receipt={receipt} usage={receipt.usage} />}
      </table>
      <p class="key">
        <span>{say.unitsOf}</span>
        {([say.keyRead, hours ? say.keyWriteHour : say.keyWrite, say.keyPlain, say.keyOutput] as const).map(
          (key, at) => (
            <span key={key}>
              <i class={classes[at]?.[1]} />
              {key}
            </span>
          ),
        )}
      </p>
      {receipt.parts.length > 0 && (
        <p class="key">
          {receipt.parts.map(({ is, ms }) => (
            <span key={is}>
              {formatMs(ms)} {say.timeIn[is]}
            </span>
          ))}
        </p>
      )}
      <p class="key">
        {receipt.model && <span>{receipt.model}</span>}
        {receipt.usage?.estimated && <span>{say.estimated}</span>}
      </p>
      <Costs turnId={turnId} receipt={receipt} />
    </section>
  );
}
