/** The dialog before an action. Enter alone does nothing: the focus starts on Cancel. */

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
  // An answer may lead to another question.
  const close = () => page.question.value === question && page.question.set(null);
  return <Dialog key={question.title} question={question} onClose={close} />;
}

function Dialog({ question, onClose }: { question: Question; onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const [refusal, setRefusal] = useState("");
  const text = useId();
  const { other } = question;
  const free = !busy && (question.word === "" || typed.trim().toLowerCase() === question.word);
  const act = async (run: () => Promise<void>) => {
    if (!free) return;
    setBusy(true);
    setRefusal("");
    try {
      await run();
      onClose();
    } catch (error) {
      setRefusal(wordsOf((error as { code?: string }).code ?? "internal", question.failed ?? words.failed));
      setBusy(false);
    }
  };
  return (
    <Sheet label={question.title} describedBy={text} place="dialog" alert onClose={onClose}>
      <form
        class="confirm"
        onSubmit={(event) => {
          event.preventDefault();
          void act(question.run);
        }}
      >
        <h2>{question.title}</h2>
        <p id={text}>
          {question.text} {!question.calm && words.forGood}
        </p>
        {question.list && (
          <ul>
            {question.list.map((line, at) => (
              <li key={at} dir="auto">
                {line}
              </li>
            ))}
          </ul>
        )}
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
          {other && (
            <button type="button" class="act" disabled={!free} onClick={() => void act(other.run)}>
              {other.act}
            </button>
          )}
          <button type="submit" class={question.calm ? "act main" : "act danger"} disabled={!free}>
            {busy ? (question.busy ?? words.busy) : question.act}
          </button>
        </div>
      </form>
    </Sheet>
  );
}
