/**
 * Announces changes to a screen reader, at most every 5 s, and only the newest: a status is not a log.
 *
 * An answer that is read by paragraph is the exception: none of its paragraphs is left out.
 */

import type { Clock } from "../store/clock.ts";

const EVERY_MS = 5_000;

export interface News {
  readonly text: string;
  /** It is queued after earlier texts; other texts are replaced by newer ones. */
  readonly keeps: boolean;
}

export class Announcer {
  readonly #clock: Clock;
  readonly #say: (text: string) => void;
  #kept: string[] = [];
  #newest = "";
  #lastMs = Number.NEGATIVE_INFINITY;
  #planned = false;

  constructor(clock: Clock, say: (text: string) => void) {
    this.#clock = clock;
    this.#say = say;
  }

  announce(news: News): void {
    if (news.keeps) this.#kept.push(news.text);
    else this.#newest = news.text;
    this.#plan();
  }

  #plan(): void {
    if (this.#planned) return;
    const waitMs = this.#lastMs + EVERY_MS - this.#clock.nowMs();
    if (waitMs <= 0) {
      this.#speak();
      return;
    }
    this.#planned = true;
    this.#clock.after(waitMs, () => {
      this.#planned = false;
      this.#speak();
    });
  }

  #speak(): void {
    const text = this.#kept.length ? this.#kept.join("\n") : this.#newest;
    if (this.#kept.length) this.#kept = [];
    else this.#newest = "";
    this.#lastMs = this.#clock.nowMs();
    this.#say(text);
    if (this.#newest) this.#plan();
  }
}
