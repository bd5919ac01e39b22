/**
 * The end of a run whose own daemon is still starting MCP servers for the first time.
 *
 * I1  A program that may be downloading its server has all of its `startMs`: npx leaves a broken cache if it is killed in the middle
 *     of a download, and the next run would start the download again.
 * I2  The result of the run is out before that, and a signal ends the wait.
 */
import type { DaemonClient } from '@breakfall/client'
import { sleep } from '@breakfall/faults'
import { duration } from '@breakfall/faults/internal'
import type { McpServerConfig } from '@breakfall/mcp'
import { launcherOf } from '../../config/outside.ts'
import type { Interrupt } from '../../terminal/interrupt.ts'
import type { Output } from '../../terminal/output.ts'

const CHECK_MS = 250
const START_MS = 60_000 // as the daemon, if the configuration does not say

export async function letDownloadsEnd(input: {
  readonly client: Pick<DaemonClient, 'mcpServers'>
  readonly servers: Readonly<Record<string, McpServerConfig>>
  readonly interrupt: Pick<Interrupt, 'leaveInstead'>
  readonly out: Pick<Output, 'say'>
}): Promise<void> {
  const launched = Object.entries(input.servers).filter(([, config]) => launcherOf(config) !== undefined)
  if (launched.length === 0) return
  const longest = Math.max(...launched.map(([, { startMs = START_MS }]) => startMs))
  const left = new AbortController()
  const signal = AbortSignal.any([left.signal, AbortSignal.timeout(longest)]) // I1
  input.interrupt.leaveInstead(() => left.abort()) // I2
  let hasSaid = false
  for (;;) {
    const { servers } = await input.client.mcpServers().catch(() => NONE) // it has ended, and its servers with it
    const names = servers.filter(({ state }) => state === 'starting').map(({ name }) => name)
    const starting = launched.filter(([name]) => names.includes(name))
    if (starting.length === 0 || signal.aborted) return
    if (!hasSaid) for (const [name, config] of starting) input.out.say(notice(name, config, longest))
    hasSaid = true
    await sleep(CHECK_MS, signal)
  }
}

// ---- details ----

const NONE = { servers: [] }

const notice = (name: string, config: McpServerConfig, ms: number): string =>
  `mcp: ${launcherOf(config)} may still be downloading ${name}; waiting up to ${duration(ms)}, because a download that is cut off starts over. Ctrl-C ends it`
