"""What people have already, brought by hand in a browser: files of other systems, and folders."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.browser.conftest import SignIn
from tests.browser.pages import open_listening
from tests.builders.live import LivePlatform

pytestmark = pytest.mark.browser

OPENPAI = """\
protocolVersion: 2
name: from_openpai
type: job
prerequisites:
  - {type: dockerimage, name: image, uri: example/torch:2.4}
parameters: {word: seventeen}
taskRoles:
  task_role:
    instances: 2
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 0}
    commands:
      - test "$PAI_CURRENT_TASK_ROLE_NAME" = task_role
      - echo "<% $parameters.word %> from $PAI_TASK_INDEX"
defaults: {virtualCluster: vision}
extras:
  com.microsoft.pai.runtimeplugin: [{plugin: ssh}]
"""
SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=from-slurm
#SBATCH --partition=gpu
#SBATCH --time=10
#SBATCH --mem=64M
module load cuda
srun echo "rank $SLURM_PROCID of $SLURM_NTASKS"
"""


def payload(name: str, text: str) -> FilePayload:
    return {"name": name, "mimeType": "text/plain", "buffer": text.encode()}


def submit_and_read(page: Page, name: str, line: str) -> None:
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}"))
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    expect(page.locator("main").get_by_text("succeeded").first).to_be_visible()
    page.get_by_role("tab", name="Log").click()
    expect(page.get_by_text(line).first).to_be_visible()


@pytest.mark.capability("6.23", "A converted job runs without the old system")
def test_an_openpai_job_is_opened_explained_and_runs(sign_in: SignIn, live_portal: LivePlatform) -> None:
    page = sign_in(live_portal.person("opal", tenant="openpai"))
    open_listening(page, "/submit")
    page.locator("input[type=file]").first.set_input_files(payload("job.yaml", OPENPAI))
    notes = page.get_by_role("region", name="job.yaml was converted to a Berth job")
    expect(notes.get_by_text("Virtual cluster vision says nothing about the queues here.")).to_be_visible()
    expect(notes.get_by_text("There is no SSH into tasks.")).to_be_visible()
    expect(notes.get_by_text("Role task_role is called task-role")).to_be_visible()
    expect(page.get_by_label("Name", exact=True)).to_have_value("from_openpai")

    page.get_by_role("combobox", name="Image", exact=True).fill("")  # This platform runs the machine's own programs.
    expect(notes).to_be_visible()  # Until somebody has read it.
    notes.get_by_role("button", name="Dismiss these notes").click()
    expect(notes).to_have_count(0)
    submit_and_read(page, "from_openpai", "seventeen from 1")


@pytest.mark.capability("6.23", "A converted job runs without the old system")
def test_a_script_for_slurm_is_dropped_explained_and_runs(sign_in: SignIn, live_portal: LivePlatform) -> None:
    page = sign_in(live_portal.person("sly", tenant="slurm"))
    open_listening(page, "/submit")
    expect(page.get_by_label("Name", exact=True)).to_be_visible()
    page.evaluate(
        """text => {
            const data = new DataTransfer();
            data.items.add(new File([text], 'night.sbatch'));
            const event = new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true});
            document.querySelector('main').dispatchEvent(event);
        }""",
        SCRIPT,
    )
    notes = page.get_by_role("region", name="night.sbatch was converted to a Berth job")
    expect(notes.get_by_text("Partition gpu says nothing about the pools here.")).to_be_visible()
    expect(notes.get_by_text("srun starts processes in all tasks of the job")).to_be_visible()
    submit_and_read(page, "from-slurm", "rank 0 of 1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small one, with what stays at home."""
    made = tmp_path / "digits"
    for path, text in {
        "train.py": "from model import name; print('trained', name, open('data/数.txt').read())",
        "model/__init__.py": "name = 'net'",
        "data/数.txt": "seventeen",
        "data/raw.bin": "x" * 1000,
        "run.sh": "#!/bin/sh\nls -A; python3 train.py\n",
        ".git/config": "secret",
        ".berthignore": "*.bin\n",
    }.items():
        (made / path).parent.mkdir(parents=True, exist_ok=True)
        (made / path).write_text(text)
    return made


def test_a_folder_is_chosen_and_a_job_runs_from_it(sign_in: SignIn, live_portal: LivePlatform, folder: Path) -> None:
    member = live_portal.person("cody", tenant="coding")
    page = sign_in(member)
    open_listening(page, "/submit")
    page.get_by_label("Name", exact=True).fill("with-code")
    page.get_by_label("Command").fill("./run.sh")
    page.get_by_role("button", name="Code and data").click()
    page.get_by_label("Code folder", exact=True).and_(page.locator("input")).set_input_files(folder)
    code = page.get_by_role("region", name="Code folder digits")
    expect(code.get_by_text(re.compile("digits is part of the job: 5 files"))).to_be_visible()
    expect(code.get_by_text("2 files are not uploaded, as .berthignore says.")).to_be_visible()
    submit_and_read(page, "with-code", "trained net seventeen")
    expect(page.get_by_text("secret")).to_have_count(0)
    [job] = [row for row in member.items("/jobs") if row["name"] == "with-code"]
    assert re.fullmatch("[0-9a-f]{64}", member.api("GET", f"/jobs/{job['id']}/spec")["code"]["snapshot"])


def test_a_folder_goes_into_a_volume_with_its_paths(sign_in: SignIn, live_portal: LivePlatform, folder: Path) -> None:
    member = live_portal.person("vol", tenant="volumes")
    volume = member.make_volume("digits")
    (folder / "data" / "two\nlines").touch()
    page = sign_in(member)
    page.goto(f"/data/{volume['id']}")
    page.get_by_label("Upload a folder").and_(page.locator("input")).set_input_files(folder / "data")
    expect(page.get_by_role("region", name="Uploads").get_by_text("digits:data/数.txt")).to_be_visible()
    page.get_by_role("link", name="data/", exact=True).click()
    expect(page.get_by_role("link", name="数.txt", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="raw.bin", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name=r"two\x0alines", exact=True)).to_be_visible()


def test_what_is_pasted_is_told_in_chinese_and_mistakes_come_at_once(sign_in: SignIn, live_portal: LivePlatform) -> None:
    page = sign_in(live_portal.person("pia", tenant="pasting"), locale="zh-CN")
    page.goto("/submit?view=yaml")
    expect(page.locator(".cm-content")).to_be_visible()
    paste(page, SCRIPT.replace("--time=10", "--time=soon --nodes=none"))
    expect(page.get_by_text('--time "soon" 不是时间。')).to_be_visible()
    expect(page.get_by_text("第 4 行").first).to_be_visible()
    expect(page.get_by_text('--nodes "none" 不是机器数。')).to_be_visible()
    paste(page, SCRIPT)
    expect(page.get_by_text("分区 gpu 与这里的资源池无关。")).to_be_visible()
    expect(page.locator(".cm-content")).to_contain_text("name: from-slurm")


def paste(page: Page, text: str) -> None:
    page.evaluate(
        """text => {
            const data = new DataTransfer();
            data.setData('text/plain', text);
            const event = new ClipboardEvent('paste', {clipboardData: data, bubbles: true, cancelable: true});
            document.querySelector('.cm-content').dispatchEvent(event);
        }""",
        text,
    )
