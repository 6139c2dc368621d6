/** The receipts of a turn and of the whole conversation, from `GET …/receipts`. */

import { type Data, flagOf, numberOf, rowsOf, textOf } from "./fields.ts";
import type { AwsCost, WholeReceipt } from "./thread.ts";
import { costLineOf } from "./turns.ts";

/** The cost of a conversation in dollars: of its models, and of everything else. */
export interface ConversationCost {
  readonly usd: number;
  readonly priced: boolean;
  readonly awsUsd: number;
}

/** Return the receipt of a turn, empty if it is not included. */
export function wholeReceiptOf(receipts: Data, turnId: string): WholeReceipt {
  const turn = rowsOf(receipts, "turns").find((one) => textOf(one, "turn_id") === turnId) ?? {};
  return {
    lines: rowsOf(turn, "lines").map(costLineOf),
    usd: numberOf(turn, "usd"),
    priced: flagOf(turn, "priced"),
    aws: rowsOf(turn, "aws").map(awsCostOf),
    awsUsd: numberOf(turn, "aws_usd"),
    unreported: numberOf(turn, "attempts_unreported"),
    pricesOf: textOf(receipts, "prices_of"),
  };
}

export function conversationCostOf(receipts: Data): ConversationCost {
  return { usd: numberOf(receipts, "usd"), priced: flagOf(receipts, "priced"), awsUsd: numberOf(receipts, "aws_usd") };
}

function awsCostOf(row: Data): AwsCost {
  return { what: textOf(row, "what"), quantity: numberOf(row, "quantity"), usd: numberOf(row, "usd") };
}
