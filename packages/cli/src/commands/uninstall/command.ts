/** `breakfall uninstall`: flags, help and examples. */
import { command } from '../../command-line/command.ts'
import type { UninstallOptions } from './uninstall.ts'

export const UNINSTALL = command<UninstallOptions>({
  usage: 'uninstall',
  about: 'remove the state folder with every session in it, and end its runner',
  examples: ['breakfall uninstall --yes                 the program itself stays: npm uninstall breakfall'],
  flags: (uninstall) =>
    uninstall.option('--yes', 'do not ask').option('--config', 'also remove the configuration and the stored keys'),
  run: async (context, options) => (await import('./uninstall.ts')).uninstallCommand(context, options),
})
