/** The calls about sessions that more than one program makes. */
import type { Session, SessionCreate, Undo, Undone } from '@breakfall/wire'
import { type ClientCore, operation } from '../core.ts'
import { read } from '../http.ts'
import { isSession, isUndone } from '../shapes.ts'

export const createSession = (core: ClientCore, body: SessionCreate): Promise<Session> =>
  core.json(operation('POST /v1/sessions', {}, { body }), isSession, 'a session')

/** The response with the bytes that a tool's command printed. */
export function execOutput(
  core: ClientCore,
  id: string,
  execId: string,
  stream: 'stdout' | 'stderr',
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return core.send(
    operation('GET /v1/sessions/{id}/execs/{execId}/output/{stream}', { id, execId, stream }, { headers }),
  )
}

/** The response with the session's bundle. */
export const exportSession = (core: ClientCore, id: string, options: { redact?: 'text' }): Promise<Response> =>
  core.send(operation('GET /v1/sessions/{id}/export', { id, ...options }))

/** Not repeated if the answer is lost. */
export const undo = async (core: ClientCore, id: string, body: Undo): Promise<Undone> =>
  read(await core.ask(operation('POST /v1/sessions/{id}/undo', { id }, { body })), isUndone, 'what it restored')
