/** The menu of the title bar: the conversation, and the user's settings. */

import { useState } from "preact/hooks";
import { shell } from "../../words/en/shell.ts";
import { wordsOf } from "../../words/index.ts";
import { branchName } from "../branches/tree.ts";
import type { Settings } from "../settings/settings.ts";
import type { Conversation } from "../store/conversation.ts";
import type { Page } from "../store/page.ts";
import { useStore } from "../store/store.ts";
import { renderMarkdown, saveFile } from "./export.ts";
import type { ItemsProps } from "./menu_button.tsx";
import { MyData } from "./my_data.tsx";
import { printAll } from "./print.ts";
import { Total } from "./total.tsx";

const { menu: words } = shell;

export function MenuItems({ page, conversation, begun, onRename, openKeys, openLimits, open, close }: ItemsProps) {
  const settings = useStore(page.settings);
  // The server decides; here the role only shows or hides entries.
  const { role } = useStore(page.budget.store);
  const pick = (run: () => void) => () => {
    close();
    run();
  };
  return (
    <>
      {begun && (
        <>
          <button type="button" onClick={pick(onRename)}>
            {shell.bar.rename}
          </button>
          <button type="button" onClick={pick(() => void printAll(conversation))}>
            {words.print}
          </button>
          <Export page={page} conversation={conversation} />
          <button type="button" class="danger" onClick={pick(() => page.askToDelete(conversation.name))}>
            {words.delete}
          </button>
          <Total page={page} conversation={conversation.name} open={open} />
          <hr />
        </>
      )}
      <Choice
        legend={words.theme}
        choices={words.themes}
        value={settings.theme}
        onPick={(theme) => page.settings.update({ theme: theme as Settings["theme"] })}
      />
      <Choice
        legend={words.reading}
        choices={words.readings}
        value={settings.reading}
        onPick={(reading) => page.settings.update({ reading: reading as Settings["reading"] })}
      />
      <label class="check">
        <input
          type="checkbox"
          checked={settings.letters}
          onChange={(event) => page.settings.update({ letters: event.currentTarget.checked })}
        />
        {words.letters}
      </label>
      <Notify page={page} />
      <hr />
      {role.endsWith("admin") && (
        <button type="button" onClick={pick(openLimits)}>
          {words.limits}
        </button>
      )}
      <button type="button" onClick={pick(openKeys)}>
        {words.keys} <kbd>?</kbd>
      </button>
      {page.config.ui?.map((bundle) => (
        <button key={bundle} type="button" onClick={pick(() => page.go({ is: "bundle", bundle }))}>
          {words.bundle(bundle)}
        </button>
      ))}
      <hr />
      <MyData page={page} close={close} />
      <hr />
      <button type="button" onClick={pick(() => void page.signOut())}>
        {words.signOut}
      </button>
    </>
  );
}

/** The switch of notifications. Only this click makes the browser ask for permission. */
function Notify({ page }: { page: Page }) {
  const { notify } = useStore(page.settings);
  const [refused, setRefused] = useState(false);
  if (typeof Notification === "undefined") return null;
  const pick = async (box: HTMLInputElement) => {
    const wanted = box.checked;
    // It is checked once notifications are allowed.
    box.checked = false;
    const allowed = wanted && (await Notification.requestPermission()) === "granted";
    setRefused(wanted && !allowed);
    page.settings.update({ notify: allowed });
  };
  return (
    <>
      <label class="check">
        <input
          type="checkbox"
          checked={notify && Notification.permission === "granted"}
          onChange={(event) => void pick(event.currentTarget)}
        />
        {words.notify}
      </label>
      {refused && <p role="status">{words.notifyRefused}</p>}
    </>
  );
}

interface ChoiceProps {
  readonly legend: string;
  readonly choices: Readonly<Record<string, string>>;
  readonly value: string;
  readonly onPick: (value: string) => void;
}

function Choice({ legend, choices, value, onPick }: ChoiceProps) {
  return (
    <fieldset>
      <legend class="label">{legend}</legend>
      {Object.entries(choices).map(([choice, label]) => (
        <label key={choice} class="check">
          <input type="radio" name={legend} checked={choice === value} onChange={() => onPick(choice)} />
          {label}
        </label>
      ))}
    </fieldset>
  );
}

function Export({ page, conversation }: { page: Page; conversation: Conversation }) {
  const [said, setSaid] = useState("");
  const save = async (kind: "md" | "json") => {
    setSaid(words.exporting);
    try {
      if (kind === "json") {
        const { documents } = await page.api.export(conversation.name);
        saveFile(`${conversation.name}.json`, "application/json", JSON.stringify(documents, null, 2));
      } else {
        await conversation.loadAll();
        const { thread } = conversation.store.value;
        const text = renderMarkdown(thread.title || conversation.name, thread, branchName(conversation));
        saveFile(`${conversation.name}.md`, "text/markdown", text);
      }
      setSaid("");
    } catch (error) {
      setSaid(wordsOf((error as { code?: string }).code ?? "", words.exportFailed("")));
    }
  };
  return (
    <>
      <button type="button" onClick={() => void save("md")}>
        {words.exportMarkdown}
      </button>
      <button type="button" onClick={() => void save("json")}>
        {words.exportJson}
      </button>
      {said && <p role="status">{said}</p>}
    </>
  );
}
