/** The calls about turns that more than one program makes. */
import type { SameFolder, Turn, TurnApprove, TurnResume } from '@breakfall/wire'
import { type ClientCore, segment } from '../core.ts'
import { isReceipt, isTurn, type TurnReceipt } from '../shapes.ts'

export type PromptOptions = { key?: string; queue?: boolean; sameFolder?: SameFolder }

export function prompt(
  core: ClientCore,
  sessionId: string,
  text: string,
  { key = core.surroundings.newKey(), queue, sameFolder }: PromptOptions,
): Promise<TurnReceipt> {
  const request = {
    method: 'POST',
    path: `/v1/sessions/${segment(sessionId)}/turns`,
    body: { prompt: text, queue: queue === true ? queue : undefined, sameFolder }, // JSON has no undefined
    headers: { 'idempotency-key': key },
  } as const
  return core.json(request, isReceipt, 'a receipt')
}

export const cancel = (core: ClientCore, turnId: string, reason?: string): Promise<Turn> =>
  change(core, turnId, 'cancel', { reason })

export const resume = (core: ClientCore, turnId: string, request: TurnResume): Promise<Turn> =>
  change(core, turnId, 'resume', request)

export const approve = (core: ClientCore, turnId: string, request: TurnApprove): Promise<Turn> =>
  change(core, turnId, 'approve', request)

// ---- details ----

const change = (core: ClientCore, id: string, action: string, body: object): Promise<Turn> =>
  core.post(`/v1/turns/${segment(id)}/${action}`, body, isTurn, 'a turn')
