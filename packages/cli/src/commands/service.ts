/** `breakfall service print`: a systemd user unit for the daemon, to be read before it is installed. */

export function systemdUnit(options: {
  node: string
  main: string
  stateDir: string | undefined
  port: number | undefined
}): string {
  const words = [
    options.node,
    options.main,
    'up',
    '--json',
    ...(options.port === undefined ? [] : ['--port', String(options.port)]),
    ...(options.stateDir === undefined ? [] : ['--state-dir', options.stateDir]),
  ]
  return `# Save as ~/.config/systemd/user/breakfall.service, then:
#   systemctl --user daemon-reload && systemctl --user enable --now breakfall
# It does not see your shell's variables: the model goes into config.toml (breakfall config example), its key into the
# file that EnvironmentFile names, as OPENAI_API_KEY=…, mode 0600.
[Unit]
Description=Breakfall, an agent runtime that does not drop runs
After=network.target

[Service]
Type=exec
ExecStart=${words.map(quoted).join(' ')}
EnvironmentFile=-%h/.config/breakfall/env
# A killed daemon goes on where it was; its runner and the commands in it are adopted, not ended.
Restart=always
RestartSec=1
KillMode=process
TimeoutStopSec=15
UMask=0077

[Install]
WantedBy=default.target
`
}

/** systemd's quoting: a word with spaces in double quotes, and % doubled. */
function quoted(word: string): string {
  const escaped = word.replaceAll('%', '%%')
  return /[\s"'\\$]/.test(escaped) ? `"${escaped.replace(/["\\]/g, (c) => `\\${c}`).replaceAll('$', '$$$$')}"` : escaped
}
