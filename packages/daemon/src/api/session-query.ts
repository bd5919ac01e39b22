/** The query parameters of a list of sessions, checked by the same schema as the WebSocket request. */
import { type SessionQuery, sessionQuerySchema } from '@breakfall/wire'
import { parseRequest } from '@breakfall/wire/internal'

export function sessionQueryOf(query: URLSearchParams): SessionQuery {
  const { limit, counts, ...texts } = Object.fromEntries(query)
  return parseRequest(sessionQuerySchema, {
    ...texts,
    ...(limit === undefined ? {} : { limit: /^\d{1,4}$/.test(limit) ? Number(limit) : limit }),
    ...(counts === undefined ? {} : { counts: flagOf(counts) }),
  })
}

/** A flag as query parameter. Anything else is left for the schema to refuse. */
export const flagOf = (value: string): boolean | string => {
  if (value === '1' || value === 'true') return true
  return value === '0' || value === 'false' ? false : value
}
