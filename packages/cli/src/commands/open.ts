/** `breakfall open`: the running daemon's console in a browser, with a ticket that is valid once. */
import type { Context } from '../command-line/context.ts'
import { command } from '../command-line/command.ts'

type OpenOptions = {
  /** Only prints the address. */
  readonly print?: boolean
}

export const OPEN = command<OpenOptions>({
  usage: 'open',
  about: "open the running daemon's console in your browser",
  examples: ['breakfall open', 'breakfall open --print                    the address, for another browser'],
  flags: (open) => open.option('--print', 'only print the address; it is valid once, for two minutes'),
  run: openCommand,
})

// ---- details ----

async function openCommand({ config, out }: Context, { print = false }: OpenOptions): Promise<void> {
  const { oneShotClient, requireDaemon } = await import('../daemon/find.ts')
  const { address, isDemo } = await requireDaemon(config)
  if (config.daemon.kind === 'local') await (await import('../console/build.ts')).builtConsole() // the daemon's page says why if it fails
  const path = isDemo === true ? '/demo' : ''
  const { openConsole } = await import('../console/open.ts')
  await openConsole(oneShotClient(address), { out, path, browse: print ? undefined : config.childEnv, isBare: print })
}
