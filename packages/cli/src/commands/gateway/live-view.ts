/** The gateway's live view: a snapshot as lines of text. Pure. */
import type { GatewaySnapshot, LiveStream } from '@breakfall/gateway'
import { counted } from '../../text/amounts.ts'
import { withoutControls } from '../../text/printable.ts'
import { totalsLine } from './request-lines.ts'

const LIVE_MAX = 12
const RECENT_MAX = 10

export function watchLines(snapshot: GatewaySnapshot, columns: number): readonly string[] {
  const { totals, live, recent, upstreams } = snapshot
  const lines = [
    '',
    totalsLine(totals),
    ...upstreams.map(
      ({ url, isHealthy, failuresInARow, lastFault }) =>
        `${isHealthy ? '●' : '○'} ${url}${isHealthy ? '' : `  ${failuresInARow} failures in a row, last ${lastFault ?? 'unknown'}`}`,
    ),
    live.length === 0 ? 'no active streams' : counted(live.length, 'active stream'),
    ...live.slice(0, LIVE_MAX).map(streamLine),
    ...(recent.length === 0 ? [] : ['']),
    ...recent
      .slice(-RECENT_MAX)
      .map(
        ({ at, kind, category, text }) =>
          `${at.slice(11, 19)}  ${kind.padEnd(8)} ${(category ?? '').padEnd(26)} ${text}`,
      ),
  ]
  // A model's name or a server's error may hold line breaks, which would look like lines of ours.
  return lines.map((line) =>
    withoutControls(line)
      .replaceAll(/[\n\t]/g, ' ')
      .slice(0, columns - 1),
  )
}

function streamLine(stream: LiveStream): string {
  const fault = stream.lastFault === null ? '' : `  after ${stream.lastFault}`
  const wait = stream.nextAt === null ? '' : `, next at ${stream.nextAt.slice(11, 19)}`
  return `  ${stream.requestId.slice(-8)}  ${(stream.model ?? '?').padEnd(24)} attempt ${stream.attempt}  ${stream.state}${wait}  ${stream.bytes} bytes${fault}`
}
