/** Requests with their defaults filled in, and the hash by which "the same body" is known. */
import { createHash } from 'node:crypto'
import { EXEC_DEFAULTS, type ExecRequest } from '@breakfall/wire'
import type { FilledRequest } from '../exec/folder.ts'

export function fillRequest(request: ExecRequest): FilledRequest {
  const { execId: _, ...rest } = request
  return { ...EXEC_DEFAULTS, env: {}, ...definedOnly(rest) } as FilledRequest
}

export function requestHash(request: FilledRequest): string {
  return createHash('sha256')
    .update(JSON.stringify(sorted(request)))
    .digest('hex')
}

export function commandOfRequest(request: Pick<FilledRequest, 'command' | 'shell'>): readonly string[] {
  return request.command ?? ['sh', '-c', request.shell ?? '']
}

function definedOnly<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, entry]) => entry !== undefined)) as T
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, entry]) => [key, sorted(entry)]),
  )
}
