/** Whether a telemetry collector takes spans: sends it an empty export. */
import { describeCause } from '@breakfall/faults'

const PROBE_MS = 3_000

/** Undefined if it takes them, else why not. */
export async function collectorProblem(endpoint: string): Promise<string | undefined> {
  try {
    const response = await fetch(`${endpoint.replace(/\/+$/, '')}/v1/traces`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"resourceSpans":[]}',
      signal: AbortSignal.timeout(PROBE_MS),
    })
    await response.body?.cancel()
    return response.ok ? undefined : `HTTP ${response.status}`
  } catch (error) {
    return describeCause(error)
  }
}
