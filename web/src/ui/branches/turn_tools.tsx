/** The tools at the end of a turn: run it again, or fork the conversation after it. */

import { useState } from "preact/hooks";
import { messagesAgain } from "../../thread/branches.ts";
import type { Turn } from "../../thread/thread.ts";
import { branchWords as words } from "../../words/en/branches.ts";
import { wordsOf } from "../../words/index.ts";
import { Icon } from "../app/icons.tsx";
import { useDesk } from "../turn/desk.ts";

export function TurnTools({ turn, number }: { turn: Turn; number: number }) {
  const { acts } = useDesk();
  const [busy, setBusy] = useState(false);
  const [refusal, setRefusal] = useState("");
  const again = async () => {
    setBusy(true);
    setRefusal("");
    const code = await acts.runAgain(turn);
    setBusy(false);
    if (code) setRefusal(wordsOf(code, words.failed));
  };
  return (
    <>
      {messagesAgain(turn).length > 0 && (
        <button
          type="button"
          class="tool"
          aria-label={words.again}
          title={words.again}
          disabled={busy}
          onClick={() => void again()}
        >
          <Icon name="again" />
        </button>
      )}
      <button
        type="button"
        class="tool"
        aria-label={words.fork}
        title={words.fork}
        onClick={() => acts.forkAfter(turn, number)}
      >
        <Icon name="fork" />
      </button>
      {refusal && (
        <span class="refused" role="alert">
          {refusal}
        </span>
      )}
    </>
  );
}
