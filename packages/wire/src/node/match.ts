/** Finds the route of a path, and the methods that the path supports. */
import { Fault } from '@breakfall/faults'

type Routable = { readonly method: string; readonly path: string }

export type Match<R> = {
  readonly route: R | undefined
  readonly params: Readonly<Record<string, string>>
  /** Methods of the path, if it has any route. */
  readonly methods: readonly string[]
}

export function matchRoute<R extends Routable>(routes: readonly R[], method: string, pathname: string): Match<R> {
  const wanted = method === 'HEAD' ? 'get' : method.toLowerCase()
  const methods: string[] = []
  let params: Readonly<Record<string, string>> = {}
  for (const route of routes) {
    const found = patternOf(route.path).exec(pathname)
    if (found === null) continue
    params = decoded(found.groups ?? {})
    if (route.method === wanted) return { route, params, methods: [] }
    methods.push(route.method.toUpperCase())
  }
  return { route: undefined, params, methods: [...new Set(methods)] }
}

// ---- details ----

const patterns = new Map<string, RegExp>()

function patternOf(path: string): RegExp {
  let pattern = patterns.get(path)
  if (pattern === undefined) {
    const source = path
      .split(/(\{\w+\+?\})/)
      .map((part) => {
        const name = /^\{(\w+)(\+?)\}$/.exec(part)
        if (name === null) return part.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&') // RegExp.escape is missing in Node 22
        return name[2] === '+' ? `(?<${name[1]}>.+)` : `(?<${name[1]}>[^/]+)`
      })
      .join('')
    pattern = new RegExp(`^${source}$`)
    patterns.set(path, pattern)
  }
  return pattern
}

function decoded(groups: Readonly<Record<string, string>>): Record<string, string> {
  const out: Record<string, string> = {}
  for (const [name, value] of Object.entries(groups)) {
    try {
      out[name] = decodeURIComponent(value)
    } catch (cause) {
      throw new Fault('invalid_request', { facts: { name: 'the path has a broken percent escape' }, cause })
    }
  }
  return out
}
