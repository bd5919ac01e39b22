/** The calls about turns that more than one program makes. */
import type { SameFolder, Turn, TurnApprove, TurnResume } from '@breakfall/wire'
import { type ClientCore, operation } from '../core.ts'
import { isReceipt, isTurn, type TurnReceipt } from '../shapes.ts'

export type PromptOptions = { key?: string; queue?: boolean; sameFolder?: SameFolder }

export function prompt(
  core: ClientCore,
  id: string,
  text: string,
  { key = core.surroundings.newKey(), queue, sameFolder }: PromptOptions,
): Promise<TurnReceipt> {
  const body = { prompt: text, queue: queue === true ? queue : undefined, sameFolder } // JSON has no undefined
  const headers = { 'idempotency-key': key }
  return core.json(operation('POST /v1/sessions/{id}/turns', { id }, { body, headers }), isReceipt, 'a receipt')
}

export const cancel = (core: ClientCore, id: string, reason?: string): Promise<Turn> =>
  core.json(operation('POST /v1/turns/{id}/cancel', { id }, { body: { reason } }), isTurn, 'a turn')

export const resume = (core: ClientCore, id: string, body: TurnResume): Promise<Turn> =>
  core.json(operation('POST /v1/turns/{id}/resume', { id }, { body }), isTurn, 'a turn')

export const approve = (core: ClientCore, id: string, body: TurnApprove): Promise<Turn> =>
  core.json(operation('POST /v1/turns/{id}/approve', { id }, { body }), isTurn, 'a turn')
