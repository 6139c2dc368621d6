/** Reads the pages of the log: those of the round at once, then the newest ones for the names of turns and rounds. */

import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Rounds } from "../api/index.ts";
import { Shown } from "./answer.tsx";
import { type Batch, EMPTY_BOOK, type LogBook, pageOf, withPage } from "./log_book.ts";
import type { Source } from "./source.ts";

/** The number of pages that load automatically; others load when the user reaches them. */
const AHEAD = 6;

interface ReadPage {
  /** Read the page of batch `n`. */
  (n: number): void;
  page(page: number): void;
}

export interface UsedLogBook {
  readonly book: LogBook;
  /** Why the log cannot be read, null if it can. */
  readonly refused: ComponentChildren | null;
  readonly readPage: ReadPage;
}

/** `newestN`: the newest known batch; missing batches before it are read. */
export function useLogBook(source: Source, rounds: Rounds, newestN: number, wanted: readonly number[]): UsedLogBook {
  const [book, setBook] = useState<LogBook>(EMPTY_BOOK);
  const [error, setError] = useState<unknown>(null);
  const asked = useRef(new Set<number>());

  const readOne = useCallback(
    async (page: number): Promise<boolean> => {
      if (page < 0 || asked.current.has(page)) return true;
      asked.current.add(page);
      try {
        const { batches, next } = await source.log(page);
        setBook((before) => withPage(before, page, batches as unknown as readonly Batch[], next));
        return true;
      } catch (failed) {
        asked.current.delete(page);
        setError(failed);
        return false;
      }
    },
    [source],
  );

  useEffect(() => {
    asked.current = new Set();
    setBook(EMPTY_BOOK);
    setError(null);
  }, [source]);

  // The newest page may have grown by the time the rounds are read again, or a new batch has arrived.
  const newest = pageOf(Math.max(newestBatch(rounds), newestN));
  useEffect(() => {
    for (const page of asked.current) if (page >= newest - 1) asked.current.delete(page);
  }, [rounds, newest, newestN]);

  const wantedKey = wanted.join(" ");
  useEffect(() => {
    let gone = false;
    const pages = wantedKey ? wantedKey.split(" ").map(Number) : [];
    for (let page = newest; page >= 0 && page > newest - AHEAD; page -= 1) pages.push(page);
    const readAll = async () => {
      for (const page of pages) if (gone || !(await readOne(page))) return;
    };
    void readAll();
    return () => {
      gone = true;
    };
  }, [readOne, rounds, newest, newestN, wantedKey]);

  const again = () => {
    setError(null);
    for (const page of wanted) void readOne(page);
  };
  const readPage = Object.assign((n: number) => void readOne(pageOf(n)), {
    page: (page: number) => void readOne(page),
  });
  const refused = error === null ? null : <Shown answer={{ is: "refused", error, again }}>{() => null}</Shown>;
  return { book, refused, readPage };
}

function newestBatch(rounds: Rounds): number {
  const last = rounds.turns.at(-1);
  return Math.max(1, last?.closed_n ?? 0, last?.opened_n ?? 0, last?.rounds.at(-1)?.decided_n ?? 0);
}
