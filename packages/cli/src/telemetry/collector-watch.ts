/**
 * Notices when the collector of spans and metrics stops taking them, and when it takes them again. Pure.
 *
 * I1  One sentence per outage, however many exports fail in it, and one when it is over.
 */
export type Signal = 'traces' | 'metrics'

/** Returns what to say about the end of an export, if anything. `problem`: undefined if it went well. */
export function collectorWatch(endpoint: string): (signal: Signal, problem: string | undefined) => string | undefined {
  const failing = new Set<Signal>() // a collector may take traces and refuse metrics
  return (signal, problem) => {
    const wasFailing = failing.size > 0
    if (problem === undefined) failing.delete(signal)
    else failing.add(signal)
    const isFailing = failing.size > 0
    if (isFailing === wasFailing) return undefined // I1
    if (!isFailing) return `The telemetry collector at ${endpoint} takes spans and metrics again.`
    return `The telemetry collector at ${endpoint} does not take ${signal} (${problem}). Breakfall keeps working and drops what it cannot send. Start the collector, or correct [telemetry] otlpEndpoint.`
  }
}
