/** `breakfall sessions`, `show` and `tail`: reads sessions and turns, with a daemon or without. */
import type { SessionPage, SessionViewer } from '@breakfall/client'
import { type Session, type SessionQuery, sessionQuerySchema } from '@breakfall/wire'
import { parseRequest } from '@breakfall/wire/internal'
import type { Context } from '../../command-line/context.ts'
import { cmd } from '../../process/command-name.ts'
import { currentFolder } from '../../process/current-folder.ts'
import { sessionTable } from '../../render/session-lines.ts'
import { viewerFor } from '../../sessions/viewer.ts'

export type SessionsOptions = {
  readonly all?: boolean
  readonly cursor?: string
  readonly here?: boolean
  readonly limit?: number
  readonly search?: string
  readonly state?: string
}

/** People get one page, programs everything, unless they ask for less. */
export async function sessionsCommand(context: Context, options: SessionsOptions): Promise<void> {
  const { out } = context
  const viewer = await viewerFor(context)
  const most = options.limit ?? (out.json || options.all === true ? Number.POSITIVE_INFINITY : PAGE_ROWS)
  const { sessions, next } = await readSessions(viewer, queryOf(options), most)
  if (out.json) {
    for (const session of sessions) out.data(session)
    out.result({ count: sessions.length, ...(next === undefined ? {} : { next }) })
    return
  }
  if (sessions.length === 0) {
    out.line(isFiltered(options) ? 'no such sessions' : `no sessions yet; start one: ${cmd('run')} "PROMPT"`)
    return
  }
  for (const line of sessionTable(sessions, out.style.bind(out), Date.now())) out.line(line)
  if (next !== undefined) out.say(out.styleErr('dim', `older ones: ${cmd('sessions')} --cursor ${next}, or --all`))
}

// ---- details ----

const PAGE_ROWS = 50

function queryOf({ search, state, here, cursor }: SessionsOptions): SessionQuery {
  const query = {
    ...(search === undefined ? {} : { q: search }),
    ...(state === undefined ? {} : { state }),
    ...(here === true ? { workspace: currentFolder() } : {}),
    ...(cursor === undefined ? {} : { cursor }),
  }
  return parseRequest(sessionQuerySchema, query)
}

const isFiltered = ({ search, state, here, cursor }: SessionsOptions): boolean =>
  search !== undefined || state !== undefined || here === true || cursor !== undefined

/** Up to `most` sessions, and the cursor of the rest. */
async function readSessions(viewer: SessionViewer, query: SessionQuery, most: number): Promise<SessionPage> {
  const sessions: Session[] = []
  for (let cursor = query.cursor; ;) {
    const limit = Math.min(100, most - sessions.length)
    const page: SessionPage = await viewer.sessionPage({ ...query, limit, ...(cursor === undefined ? {} : { cursor }) })
    sessions.push(...page.sessions)
    cursor = page.next
    if (cursor === undefined || sessions.length >= most) return { sessions, next: cursor }
  }
}
