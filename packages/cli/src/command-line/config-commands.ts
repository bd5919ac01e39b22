/** The commands that only print: `config show`, `config example`, `service print`. */
import type { Command } from 'commander'
import { EXIT_CODES } from '@breakfall/faults'
import { userConfigFile } from '../config/paths.ts'
import { type CommonOptions, contextFor, printText } from './context.ts'
import { portNumber } from './flags.ts'
import { helpOf } from './help.ts'

export function addConfigCommands(program: Command, done: (exitCode: number) => void): void {
  const config = program.command('config').description('show the configuration')
  const show = config
    .command('show')
    .description('show what is set')
    .addHelpText('after', helpOf('config show'))
    .option('--origin', 'and its origin')
    .option('--json', 'machine-readable lines on stdout')
    .action(async () => {
      const { showConfig } = await import('../commands/config.ts')
      const [{ chooseModel }, { listModels }] = await Promise.all([
        import('../model/choose.ts'),
        import('../model/list.ts'),
      ])
      const { origin = false, json = false } = show.opts<{ origin?: boolean; json?: boolean }>()
      const context = contextFor({ json })
      const choice = await chooseModel(context.config.model, listModels)
      showConfig(context.config, choice, { origin }, context.out)
      done(EXIT_CODES.finished)
    })
  const example = config
    .command('example')
    .description('print a commented config file to start from')
    .option('--write', 'write it as your config file, unless you have one')
    .option('--json', 'machine-readable lines on stdout')
    .addHelpText('after', helpOf('config example'))
    .action(async () => {
      const { EXAMPLE_CONFIG, writeExample } = await import('../commands/config.ts')
      const options = example.opts<CommonOptions & { write?: boolean }>()
      if (options.write !== true) return printText(EXAMPLE_CONFIG, options)
      const file = userConfigFile(process.env)
      writeExample(file)
      printText(`${file}\n`, options)
    })
  const print = program
    .command('service')
    .description('run the daemon as a service')
    .command('print')
    .description('print a systemd unit for the daemon')
    .option('--json', 'machine-readable lines on stdout')
    .option('--state-dir <dir>', 'where the daemon keeps sessions and journals')
    .option('--port <port>', "the daemon's port", portNumber)
    .addHelpText('after', helpOf('service print'))
    .action(async () => {
      const { stableNode, systemdUnit } = await import('../commands/service.ts')
      const { checkoutFolder, launcherFile } = await import('../process/self.ts')
      const options = print.opts<CommonOptions>()
      const { stateDir, port } = contextFor(options).config.loaded.config.daemon ?? {}
      const node = stableNode(process.env['PATH'] ?? '', checkoutFolder, process.execPath)
      printText(systemdUnit({ node, launcher: launcherFile, stateDir, port }), options)
    })
}
