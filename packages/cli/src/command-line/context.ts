/** Builds the context of a command: its output and its configuration, from the flags that were given. */
import { type Fault, isFault } from '@breakfall/faults'
import { readCredentials } from '../config/credentials.ts'
import { loadConfig } from '../config/load.ts'
import { resolveConfig, type ResolvedConfig } from '../config/resolve.ts'
import { currentFolderIfAny } from '../process/current-folder.ts'
import { Output } from '../terminal/output.ts'
import { configFlags } from './flags.ts'

export type Context = {
  readonly out: Output
  readonly config: ResolvedConfig
  /** What is wrong with a config file, for a command that continues without the files. */
  readonly configFault?: Fault | undefined
  /** Reads the configuration again, with the same flags: a daemon follows its files. */
  readonly reload: () => ResolvedConfig
}

export type CommonOptions = { readonly json?: boolean }

/** `needsFiles`: a mistake in a config file ends the command. Otherwise the command reports it and continues without the files. */
export function contextFor(options: CommonOptions, resultFields: object = {}, needsFiles = true): Context {
  const out = new Output({ json: options.json === true, resultFields })
  const folder = currentFolderIfAny()
  const flags = configFlags({ ...options })
  const load = (withoutFiles = false): ResolvedConfig => {
    const loaded = loadConfig({ env: process.env, folder, flags, withoutFiles })
    return resolveConfig(loaded, process.env, readCredentials(process.env))
  }
  const { config, configFault } = needsFiles ? { config: load() } : evenIfWrong(load)
  for (const warning of config.loaded.warnings) out.say(out.styleErr('yellow', `warning: ${warning}`))
  return { out, config, configFault, reload: () => load() }
}

/** Text to save in a file, or with `--json` a field of the result line. */
export function printText(text: string, options: CommonOptions): void {
  const out = new Output({ json: options.json === true })
  if (out.json) out.result({ text })
  else out.write(text)
}

// ---- details ----

function evenIfWrong(load: (withoutFiles?: boolean) => ResolvedConfig): Pick<Context, 'config' | 'configFault'> {
  try {
    return { config: load() }
  } catch (thrown) {
    if (!isFault(thrown)) throw thrown
    return { config: load(true), configFault: thrown }
  }
}
