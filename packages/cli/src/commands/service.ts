/** `breakfall service print`: a systemd user unit for the daemon. Printed, not installed: read it first. */

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
# A service does not see your shell's variables. Set the model in config.toml (breakfall config example), and its key in the
# file below (EnvironmentFile), as OPENAI_API_KEY=…, with mode 0600.
[Unit]
Description=Breakfall, the reliability layer for AI agents
After=network.target

[Service]
Type=exec
ExecStart=${words.map(quoted).join(' ')}
EnvironmentFile=-%h/.config/breakfall/env
# A restarted daemon continues where it was killed, and adopts the runner and its commands, which keep running.
Restart=always
RestartSec=1
KillMode=process
TimeoutStopSec=15
UMask=0077

[Install]
WantedBy=default.target
`
}

/** Quotes for systemd: a word with spaces in double quotes, and % doubled. */
function quoted(word: string): string {
  const escaped = word.replaceAll('%', '%%')
  return /[\s"'\\$]/.test(escaped) ? `"${escaped.replace(/["\\]/g, (c) => `\\${c}`).replaceAll('$', '$$$$')}"` : escaped
}
