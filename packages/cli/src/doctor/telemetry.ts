/** The doctor's check of the telemetry collector. */
import { collectorProblem } from '../telemetry/probe.ts'
import type { Finding } from './finding.ts'

/** Nothing if no collector is configured. */
export async function checkTelemetry(endpoint: string | undefined): Promise<readonly Finding[]> {
  if (endpoint === undefined) return []
  const check = 'telemetry'
  const problem = await collectorProblem(endpoint)
  if (problem === undefined) return [{ check, verdict: 'ok', found: `${endpoint} takes spans` }]
  const found = `${endpoint} takes no spans: ${problem}; turns work, but their traces and metrics are lost`
  const fix = 'start the collector, or correct [telemetry] otlpEndpoint: it is the address below which /v1/traces is'
  return [{ check, verdict: 'warn', found, fix }]
}
