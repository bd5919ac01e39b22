/** `breakfall service print`: a systemd user unit for the daemon. Printed, not installed: read it first. */
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { type CommonOptions, contextFor } from '../command-line/context.ts'
import { checkoutFolder, launcherFile } from '../process/self.ts'
import { type CommandFamily } from '../command-line/command.ts'
import { portNumber } from '../command-line/flags.ts'

export const SERVICE: CommandFamily = {
  name: 'service',
  about: 'run the daemon as a service',
  commands: [
    {
      usage: 'print',
      about: 'print a systemd unit for the daemon',
      examples: ['breakfall service print > ~/.config/systemd/user/breakfall.service'],
      flags: (print) =>
        print
          .option('--state-dir <dir>', 'where the daemon keeps sessions and journals')
          .option('--port <port>', "the daemon's port", portNumber),
      print: (made) => unitText(made.opts<CommonOptions>()),
    },
  ],
}

/**
 * The unit names the launcher and the machine's own Node: both stay when the checkout is upgraded, and the launcher sets up what
 * the new version needs.
 */

export function systemdUnit(options: {
  node: string
  launcher: string
  stateDir: string | undefined
  port: number | undefined
}): string {
  const words = [
    options.node,
    options.launcher,
    'up',
    '--json',
    ...(options.port === undefined ? [] : ['--port', String(options.port)]),
    ...(options.stateDir === undefined ? [] : ['--state-dir', options.stateDir]),
  ]
  return `# Save as ~/.config/systemd/user/breakfall.service, then:
#   systemctl --user daemon-reload && systemctl --user enable --now breakfall
# After an upgrade of the checkout: systemctl --user restart breakfall. Print the unit again only if you move the checkout or Node.
# A service does not see your shell's variables. Set the model in config.toml (breakfall config example), and its key in the
# file below (EnvironmentFile), as OPENAI_API_KEY=…, with mode 0600.
[Unit]
Description=Breakfall, the reliability layer for AI agents
After=network.target
# In the middle of an upgrade it may fail a few times: systemd must not give up.
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart=${words.map(quoted).join(' ')}
EnvironmentFile=-%h/.config/breakfall/env
# A restarted daemon continues where it was killed, and adopts the runner and its commands, which keep running.
Restart=always
RestartSec=1
KillMode=process
TimeoutStopSec=15
# The first start after an upgrade may install packages.
TimeoutStartSec=300
UMask=0077

[Install]
WantedBy=default.target
`
}

/** The first `node` on the PATH outside the checkout, as the PATH names it: a link to the current version stays when Node is upgraded. */
export function stableNode(path: string, checkout: string, fallback: string): string {
  const folders = path.split(delimiter).filter((folder) => folder.startsWith('/') && !folder.startsWith(checkout))
  const found = folders.map((folder) => join(folder, 'node')).find((file) => existsSync(file))
  return found ?? fallback
}

// ---- details, in the order they are used above ----

function unitText(options: CommonOptions): string {
  const { stateDir, port } = contextFor(options).config.loaded.config.daemon ?? {}
  const node = stableNode(process.env['PATH'] ?? '', checkoutFolder, process.execPath)
  return systemdUnit({ node, launcher: launcherFile, stateDir, port })
}

/** Quotes for systemd: a word with spaces in double quotes, and % doubled. */
function quoted(word: string): string {
  const escaped = word.replaceAll('%', '%%')
  return /[\s"'\\$]/.test(escaped) ? `"${escaped.replace(/["\\]/g, (c) => `\\${c}`).replaceAll('$', '$$$$')}"` : escaped
}
