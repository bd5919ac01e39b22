/** The calls about sessions that more than one program makes. */
import type { Session, SessionCreate, Undo, Undone } from '@breakfall/wire'
import { type ClientCore, segment, withQuery } from '../core.ts'
import { read } from '../http.ts'
import { isSession, isUndone } from '../shapes.ts'

export const createSession = (core: ClientCore, create: SessionCreate): Promise<Session> =>
  core.post('/v1/sessions', create, isSession, 'a session')

/** The response with the bytes that a tool's command printed. */
export function execOutput(
  core: ClientCore,
  sessionId: string,
  execId: string,
  stream: 'stdout' | 'stderr',
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return core.send({
    method: 'GET',
    path: `${sessionPath(sessionId)}/execs/${segment(execId)}/output/${stream}`,
    headers,
  })
}

/** The response with the session's bundle. */
export function exportSession(core: ClientCore, sessionId: string, options: { redact?: 'text' }): Promise<Response> {
  return core.send({ method: 'GET', path: withQuery(`${sessionPath(sessionId)}/export`, Object.entries(options)) })
}

/** Not repeated if the answer is lost. */
export const undo = async (core: ClientCore, sessionId: string, request: Undo): Promise<Undone> =>
  read(
    await core.ask({ method: 'POST', path: `${sessionPath(sessionId)}/undo`, body: request }),
    isUndone,
    'what it restored',
  )

export const sessionPath = (id: string): string => `/v1/sessions/${segment(id)}`
