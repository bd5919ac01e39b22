/** The page's connection, as one thing: the login (which token), the link, the fleet, and the session that is open. */
import { effect, signal } from '@preact/signals'
import { isFault } from '@breakfall/client/internal'
import { json, operation, statusOf, useToken } from './api.ts'
import { takeWatchFrame, watchFleet } from './fleet.ts'
import { SessionFeed } from './session-feed.ts'
import { isJson, isText } from '../fold/shapes.ts'
import { Link } from './socket.ts'
import { answerOtherTabs, askOtherTabs, type Given, keepToken, keptToken } from './token.ts'

export type Login =
  | { readonly kind: 'opening' }
  | { readonly kind: 'open' }
  | { readonly kind: 'closed'; readonly why: string | null }

export const login = signal<Login>({ kind: 'opening' })
export const link = new Link()
export const feed = signal<SessionFeed | null>(null)

export async function startLogin(given: Given): Promise<void> {
  link.onOpen = () => void opened()
  link.onFrame = (frame) => {
    if (isJson(frame['watch'])) return takeWatchFrame(frame['watch'])
    feed.peek()?.take(frame, link)
  }
  const token = await tokenFor(given)
  if (token !== null) enter(token)
  effect(() => {
    if (link.state.value.kind === 'refused' && login.peek().kind === 'open') {
      keepToken(null)
      login.value = {
        kind: 'closed',
        why: 'The daemon did not accept this token. It may have expired, or the token file changed.',
      }
    }
  })
}

/** A token or ticket that a person pasted. */
export async function logIn(given: Given): Promise<void> {
  login.value = { kind: 'opening' }
  const token = await tokenFor(given)
  if (token === null) return
  useToken(token)
  const refused: unknown = await json(operation('GET /v1/sessions', { limit: 1 })).then(
    () => null,
    (error: unknown) => error,
  )
  if (isFault(refused) && refused.category !== 'daemon_unreachable') {
    login.value = {
      kind: 'closed',
      why: statusOf(refused) === 401 ? 'The daemon did not accept that token.' : refused.error,
    }
    return
  }
  enter(token)
}

/** Opens a session's feed, and closes the one before. `from`: the first event that is wanted. */
export function openFeed(id: string, from: number): SessionFeed {
  const current = feed.peek()
  if (current !== null && current.id === id && current.from <= from) return current
  if (current !== null) void current.unsubscribe(link)
  const next = new SessionFeed(id, from)
  feed.value = next
  if (link.state.peek().kind === 'open') void next.subscribe(link)
  return next
}

export function closeFeed(): void {
  const current = feed.peek()
  if (current === null) return
  void current.unsubscribe(link)
  feed.value = null
}

// ---- details, in the order they are used above ----

let isStarted = false

function enter(token: string): void {
  useToken(token)
  keepToken(token)
  login.value = { kind: 'open' }
  if (isStarted) return link.restart()
  isStarted = true
  answerOtherTabs()
  link.start()
}

async function tokenFor({ ticket, token }: Given): Promise<string | null> {
  if (token !== undefined) return token
  if (ticket !== undefined) return spentTicket(ticket)
  const known = keptToken() ?? (await askOtherTabs())
  if (known === null) login.value = { kind: 'closed', why: null }
  return known
}

/** A ticket is good for one use and two minutes. A tab that already has a token ignores a used one. */
async function spentTicket(ticket: string): Promise<string | null> {
  try {
    const { token } = await json(operation('POST /v1/console/tokens', {}, { body: { ticket } }))
    if (isText(token)) return token
  } catch (error) {
    const known = keptToken() ?? (await askOtherTabs())
    if (known !== null) return known
    const why =
      statusOf(error) === 401
        ? 'This link was used before, or is older than two minutes. Run `breakfall open` for a new one.'
        : error instanceof Error
          ? error.message
          : String(error)
    login.value = { kind: 'closed', why }
    return null
  }
  login.value = { kind: 'closed', why: 'The daemon sent no token for this link. Run `breakfall open` for a new one.' }
  return null
}

async function opened(): Promise<void> {
  const current = feed.peek()
  await Promise.allSettled([watchFleet(link), current?.subscribe(link)])
}
