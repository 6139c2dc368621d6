import { useState } from "preact/hooks";
import type { Growing } from "../../thread/thread.ts";
import { say } from "../../words/en/thread.ts";

const lastLines = 3;

/** The model's thinking: its last lines while it grows, all of it on a click. */
export function Thinking({ thinking, settled }: { thinking: Growing; settled: boolean }) {
  const [all, setAll] = useState(false);
  const text = thinking.text.trim();
  if (!text) return null;
  const long = text.length > 240 || text.split("\n").length > lastLines;
  // A reversed column shows the end of its one child; its height limits it to three lines.
  return (
    <div class="think">
      <div class={all || !long ? "whole" : "last"}>
        <p dir="auto">{text}</p>
      </div>
      {long && (
        <button type="button" class="longer" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? say.lessThinking : say.allThinking}
        </button>
      )}
      {thinking.aborted && settled && <span class="pill">{say.cutOff}</span>}
    </div>
  );
}
