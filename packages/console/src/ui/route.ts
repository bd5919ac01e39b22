/** Where in the page we are, as a hash: no server change, nothing in logs, and every state is a link. */
import { signal } from '@preact/signals'

export type Focus = {
  readonly step?: number | undefined
  readonly attempt?: number | undefined
  readonly call?: string | undefined
}

export type Route =
  | { readonly screen: 'fleet'; readonly filter: string; readonly q: string }
  | { readonly screen: 'session'; readonly id: string; readonly turnId: string | null; readonly focus: Focus }
  | { readonly screen: 'faults'; readonly fingerprint: string | null }
  | { readonly screen: 'catalogue'; readonly category: string | null }
  | { readonly screen: 'system' | 'new' | 'demo' | 'gateway' | 'bundle' }
  | { readonly screen: 'missing'; readonly path: string }

export function parseRoute(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#/, '').split('?', 2)
  const params = new URLSearchParams(query)
  const [first = '', second, third, fourth] = path.split('/').filter(Boolean).map(decoded)
  switch (first) {
    case '':
      return { screen: 'fleet', filter: params.get('state') ?? '', q: params.get('q') ?? '' }
    case 's':
      if (second === undefined) break
      return { screen: 'session', id: second, turnId: third === 't' ? (fourth ?? null) : null, focus: focusIn(params) }
    case 'faults':
      return second === 'catalogue'
        ? { screen: 'catalogue', category: third ?? null }
        : { screen: 'faults', fingerprint: second ?? null }
    case 'system':
    case 'new':
    case 'demo':
    case 'gateway':
    case 'bundle':
      return { screen: first }
    default:
  }
  return { screen: 'missing', path }
}

export const fleetLink = (filter = '', q = ''): string => `#/${queryOf({ state: filter, q })}`

export function sessionLink(id: string, turnId?: string | null, focus: Focus = {}): string {
  const turn = turnId == null ? '' : `/t/${encodeURIComponent(turnId)}`
  return `#/s/${encodeURIComponent(id)}${turn}${queryOf({ ...focus })}`
}

export const faultLink = (fingerprint: string): string => `#/faults/${encodeURIComponent(fingerprint)}`
export const categoryLink = (category: string): string => `#/faults/catalogue/${encodeURIComponent(category)}`

export const route = signal<Route>({ screen: 'fleet', filter: '', q: '' })

export function startRouting(): void {
  const read = (): void => {
    route.value = parseRoute(location.hash)
  }
  addEventListener('hashchange', read)
  read()
}

export function go(link: string): void {
  location.hash = link
}

/** Changes the address without a new entry in the history: for a selection, or a filter while a person types. */
export function replaceRoute(link: string): void {
  history.replaceState(null, '', link)
  route.value = parseRoute(link)
}

// ---- details ----

function focusIn(params: URLSearchParams): Focus {
  const [step, attempt, call] = [params.get('step'), params.get('attempt'), params.get('call')]
  return {
    ...(step === null ? {} : { step: Number(step) }),
    ...(attempt === null ? {} : { attempt: Number(attempt) }),
    ...(call === null ? {} : { call }),
  }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part // a lone percent sign that a person typed
  }
}

function queryOf(fields: Readonly<Record<string, string | number | undefined>>): string {
  const params = new URLSearchParams()
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined && value !== '') params.set(name, String(value))
  }
  return params.size === 0 ? '' : `?${params.toString()}`
}
