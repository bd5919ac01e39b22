/**
 * How the page gets and keeps a token: a one-use ticket or a token in the fragment, this tab's storage, another tab.
 *
 * I1  Nothing secret stays in the address or the history: the fragment is replaced before anything else runs.
 * I2  The token is in sessionStorage only. Other programs on this port, later or at the same time, never see it.
 */
const KEY = 'breakfall.token'
const CHANNEL = 'breakfall.token'
const OTHER_TABS_MS = 250 // other tabs of this page answer in a few milliseconds

export type Given = { readonly ticket?: string; readonly token?: string }

/** Reads a ticket or token from the address and removes it. The first thing that the page does. */
export function takeFromAddress(): Given {
  const hash = location.hash.replace(/^#/, '')
  if (!/^(?:ticket|token)=/.test(hash)) return {}
  const params = new URLSearchParams(hash)
  const to = params.get('to') ?? '/'
  history.replaceState(null, '', `${location.pathname}#${to.startsWith('/') ? to : '/'}`) // I1
  const [ticket, token] = [params.get('ticket'), params.get('token')]
  return { ...(ticket ? { ticket } : {}), ...(token ? { token } : {}) }
}

export function keptToken(): string | null {
  try {
    return sessionStorage.getItem(KEY)
  } catch {
    return null // storage is switched off: the page works, and asks again after a reload
  }
}

export function keepToken(token: string | null): void {
  try {
    if (token === null) sessionStorage.removeItem(KEY)
    else sessionStorage.setItem(KEY, token)
  } catch {
    // as above
  }
}

/** A tab that was opened from this page has no storage. It asks the others. */
export function askOtherTabs(): Promise<string | null> {
  if (typeof BroadcastChannel === 'undefined') return Promise.resolve(null)
  return new Promise((resolve) => {
    const channel = new BroadcastChannel(CHANNEL)
    const done = (token: string | null): void => {
      clearTimeout(timer)
      channel.close()
      resolve(token)
    }
    const timer = setTimeout(() => done(null), OTHER_TABS_MS)
    channel.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
      if (isAnswer(data)) done(data.token)
    })
    channel.postMessage({ ask: true })
  })
}

/** Answers tabs of the same origin, which could read everything this page can. */
export function answerOtherTabs(): void {
  if (typeof BroadcastChannel === 'undefined') return
  const channel = new BroadcastChannel(CHANNEL)
  channel.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
    const token = keptToken()
    if (typeof data === 'object' && data !== null && 'ask' in data && token !== null) channel.postMessage({ token })
  })
}

/** What a person pasted: a token, a token file's line, or the whole address that `breakfall open` printed. */
export function readPasted(text: string): Given {
  const trimmed = text.trim()
  const [, kind, value] = /[#&?](ticket|token)=([^&\s]+)/.exec(trimmed) ?? []
  if (value !== undefined) return kind === 'ticket' ? { ticket: value } : { token: value }
  const [token = ''] = trimmed.split(/\s+/)
  return token === '' ? {} : { token }
}

// ---- details ----

const isAnswer = (data: unknown): data is { readonly token: string } =>
  typeof data === 'object' && data !== null && 'token' in data && typeof data.token === 'string'
