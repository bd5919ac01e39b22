/** A fault over HTTP: `application/problem+json` (RFC 9457) plus the report's fields, and back. */
import { isReadable, read } from './read.ts'
import { type Fault, faultFrom } from './fault.ts'
import type { FaultReport } from './report.ts'
import { isFault, PROBLEM_TYPE_PREFIX } from './reported-fault.ts'
import { FAULTS } from './categories.ts'

export const PROBLEM_CONTENT_TYPE = 'application/problem+json'

export type Problem = FaultReport & {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
}

export function toProblem(fault: Fault | FaultReport): Problem {
  const report = isFault(fault) ? fault.report : fault
  const row = FAULTS[report.category]
  return {
    ...report,
    type: PROBLEM_TYPE_PREFIX + report.category,
    title: row.title,
    status: row.http,
    detail: report.error,
  }
}

/** The fault in a problem document, or undefined if the body is not a Breakfall problem. */
export function fromProblem(body: unknown): Fault | undefined {
  if (!isReadable(body)) return undefined
  const type = read(body, 'type')
  const category = read(body, 'category')
  if (typeof type !== 'string' || !type.startsWith(PROBLEM_TYPE_PREFIX) || typeof category !== 'string')
    return undefined
  return faultFrom(body)
}
