/** Finds the route of a path, and the methods that the path supports. */
type Routable = { readonly method: string; readonly path: string }

export type Match<R> = {
  readonly route: R | undefined
  readonly params: Readonly<Record<string, string>>
  /** Methods of the path, if it has any route. */
  readonly methods: readonly string[]
  /** A parameter has a broken percent escape. Returned, not thrown: a caller without a token must not learn of it. */
  readonly isBroken: boolean
}

export function matchRoute<R extends Routable>(routes: readonly R[], method: string, pathname: string): Match<R> {
  const wanted = method === 'HEAD' ? 'get' : method.toLowerCase()
  const methods: string[] = []
  let params: Readonly<Record<string, string>> | undefined = {}
  for (const route of routes) {
    const found = patternOf(route.path).exec(pathname)
    if (found === null) continue
    params = decoded(found.groups ?? {})
    if (route.method === wanted) return { route, ...given(params), methods: [] }
    methods.push(route.method.toUpperCase())
  }
  return { route: undefined, ...given(params), methods: [...new Set(methods)] }
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

const given = (params: Match<unknown>['params'] | undefined): Pick<Match<unknown>, 'params' | 'isBroken'> =>
  params === undefined ? { params: {}, isBroken: true } : { params, isBroken: false }

/** Undefined if one of them cannot be decoded. */
function decoded(groups: Readonly<Record<string, string>>): Record<string, string> | undefined {
  try {
    return Object.fromEntries(Object.entries(groups).map(([name, value]) => [name, decodeURIComponent(value)]))
  } catch {
    return undefined
  }
}
