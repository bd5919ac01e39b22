/** nginx as a plain proxy, for the comparison. Debian's, if it is installed; all its files are in a folder of its own. */
import { execFileSync, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { closedPort } from '../../test/kit/tcp-server.ts'

const START_LOOKS_MAX = 100

export type Nginx = { readonly url: string; readonly pid: number; readonly version: string; stop(): void }

/** Or the reason why it cannot take part. */
export async function startNginx(upstream: string): Promise<Nginx | string> {
  const version = versionOf()
  if (version === undefined) return 'it is not installed (apt-get install nginx-light)'
  const folder = mkdtempSync(join(tmpdir(), 'breakfall-nginx-'))
  const port = await closedPort()
  mkdirSync(join(folder, 'tmp'))
  writeFileSync(join(folder, 'nginx.conf'), configuration(port, upstream))
  const child = spawn('nginx', ['-p', folder, '-c', 'nginx.conf', '-e', 'error.log'], { stdio: 'ignore' })
  const url = `http://127.0.0.1:${port}/v1`
  const stop = (): void => {
    child.kill('SIGTERM')
    rmSync(folder, { recursive: true, force: true })
  }
  for (let looks = 0; looks < START_LOOKS_MAX && child.exitCode === null; looks++) {
    const worker = workerOf(child.pid ?? 0)
    if (worker !== undefined && (await answers(url))) return { url, pid: worker, version, stop }
    await sleep(50)
  }
  stop()
  return 'it did not start'
}

// ---- details ----

function versionOf(): string | undefined {
  try {
    const said = execFileSync('sh', ['-c', 'nginx -v 2>&1'], { encoding: 'utf8' })
    return /nginx\/(\S+)/.exec(said)?.[1]
  } catch {
    return undefined // not installed
  }
}

/** One process does the work. Events go on as they come. */
const configuration = (port: number, upstream: string): string => `
daemon off; worker_processes 1; pid nginx.pid; error_log error.log crit;
events { worker_connections 512; }
http {
  access_log off; client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp; uwsgi_temp_path tmp; scgi_temp_path tmp;
  upstream model { server ${new URL(upstream).host}; keepalive 32; }
  server {
    listen 127.0.0.1:${port};
    location / { proxy_pass http://model; proxy_http_version 1.1; proxy_set_header connection ""; proxy_buffering off; }
  }
}
`

function workerOf(master: number): number | undefined {
  try {
    const [first] = readFileSync(`/proc/${master}/task/${master}/children`, 'utf8').trim().split(' ')
    return first === undefined || first === '' ? undefined : Number(first)
  } catch {
    return undefined // it ended, or has not started yet
  }
}

const answers = (url: string): Promise<boolean> =>
  fetch(`${url}/chat/completions?chunks=1`, { method: 'POST', body: '{}' }).then(
    async (res) => (await res.text()) !== '',
    () => false,
  )
