/** The dialog before an irreversible action. Enter alone does nothing: the focus starts on Cancel. */

import { useId, useState } from "preact/hooks";
import { shell } from "../../words/en/shell.ts";
import { wordsOf } from "../../words/index.ts";
import { Sheet } from "../app/sheet.tsx";
import type { Page } from "../store/page.ts";
import { useStore } from "../store/store.ts";
import type { Question } from "./question.ts";

const { erase: words } = shell;

export function Confirm({ page }: { page: Page }) {
  const question = useStore(page.question);
  if (!question) return null;
  return <Dialog key={question.title} question={question} onClose={() => page.question.set(null)} />;
}

function Dialog({ question, onClose }: { question: Question; onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const [refusal, setRefusal] = useState("");
  const text = useId();
  const free = !busy && (question.word === "" || typed.trim().toLowerCase() === question.word);
  const act = async () => {
    if (!free) return;
    setBusy(true);
    setRefusal("");
    try {
      await question.run();
      onClose();
    } catch (error) {
      setRefusal(wordsOf((error as { code?: string }).code ?? "internal", words.failed));
      setBusy(false);
    }
  };
  return (
    <Sheet label={question.title} describedBy={text} place="dialog" alert onClose={onClose}>
      <form
        class="confirm"
        onSubmit={(event) => {
          event.preventDefault();
          void act();
        }}
      >
        <h2>{question.title}</h2>
        <p id={text}>
          {question.text} {words.forGood}
        </p>
        {question.word && (
          <label>
            {words.type(question.word)}
            <input
              value={typed}
              autocomplete="off"
              spellcheck={false}
              onInput={(event) => setTyped(event.currentTarget.value)}
            />
          </label>
        )}
        {refusal && (
          <p class="refused" role="alert">
            {refusal}
          </p>
        )}
        <div class="confirm-acts">
          <button type="button" class="act" onClick={onClose}>
            {words.cancel}
          </button>
          <button type="submit" class="act danger" disabled={!free}>
            {busy ? words.busy : question.act}
          </button>
        </div>
      </form>
    </Sheet>
  );
}
