/** The state of an API answer: being read, read, or refused. */

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError } from "../api/index.ts";
import { words } from "../words/en/inspect.ts";

export type Answer<Value> =
  | { readonly is: "reading" }
  | { readonly is: "read"; readonly value: Value }
  | { readonly is: "refused"; readonly error: unknown; readonly again: () => void };

const READING = { is: "reading" } as const;

/** Send a request when `key` changes; null sends none. A result for another key is never shown for this one. */
export function useAnswer<Value>(key: string | null, ask: () => Promise<Value>): Answer<Value> {
  const [state, setState] = useState<{ key: string | null; answer: Answer<Value> }>({ key: null, answer: READING });
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    if (key === null) return;
    let gone = false;
    const report = (answer: Answer<Value>) => {
      if (!gone) setState({ key, answer });
    };
    const again = () => {
      report(READING);
      setAttempt((count) => count + 1);
    };
    ask().then(
      (value) => report({ is: "read", value }),
      (error: unknown) => report({ is: "refused", error, again }),
    );
    return () => {
      gone = true;
    };
  }, [key, attempt]);
  return state.key === key ? state.answer : READING;
}

/** Return the sentence of a refusal, by its code. */
export function refusalWords(error: unknown): string {
  if (!(error instanceof ApiError)) return words.refusals.api_unreachable ?? "";
  return words.refusals[error.code] ?? `${error.detail} (${error.code})`;
}

interface ShownProps<Value> {
  readonly answer: Answer<Value>;
  readonly children: (value: Value) => ComponentChildren;
}

/** Show an answer, or why there is none. */
export function Shown<Value>({ answer, children }: ShownProps<Value>) {
  if (answer.is === "read") return <>{children(answer.value)}</>;
  if (answer.is === "reading") return <p class="remark reading">{words.loading}</p>;
  const final = answer.error instanceof ApiError && !answer.error.retryable;
  return (
    <div class="remark" role="alert">
      <p>{refusalWords(answer.error)}</p>
      {!final && (
        <button type="button" class="act" onClick={answer.again}>
          {words.retry}
        </button>
      )}
    </div>
  );
}
