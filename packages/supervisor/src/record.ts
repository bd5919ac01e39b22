/** Narrows unknown values: what another process wrote, what a caller passed, what was thrown. */

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

/** The system's name for an error, such as `ENOENT`; empty if it has none. */
export function errorCode(error: unknown): string {
  return isRecord(error) && typeof error['code'] === 'string' ? error['code'] : ''
}
