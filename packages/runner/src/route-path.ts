/** The URL path of a call to the runner. */
import { invalidRequest } from '@breakfall/wire/internal'
import { type RouteName, RUNNER_ROUTES } from './routes.ts'

/**
 * The path with its parameters escaped; a `path+` keeps its slashes. Refuses `..`, which no escape protects: a proxy that
 * normalizes the URL would turn it into another route.
 */
export function pathOf(name: RouteName, params: Readonly<Record<string, string>>): string {
  return RUNNER_ROUTES[name].path.replaceAll(/\{(\w+)(\+?)\}/g, (_, key: string, rest: string) => {
    const value = String(params[key] ?? '')
    const parts = rest === '' ? [value] : value.split('/')
    if (value === '' || parts.includes('..') || !value.isWellFormed())
      throw invalidRequest([
        {
          field: key,
          expected: rest === '' ? 'a name' : 'a path inside the workspace, without ".."',
          got: JSON.stringify(value.slice(0, 200)),
        },
      ])
    return parts.map(encodeURIComponent).join('/')
  })
}
