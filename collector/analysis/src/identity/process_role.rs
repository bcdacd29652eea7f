//! Role of a process in a job of several groups, as its framework names it.

use rankscope_ranklog::reader::RankLog;

/// Beginning of the title that Ray gives to its workers.
const RAY: &str = "ray::";
/// Role that torchelastic gives to every process unless the user names one.
const WITHOUT_NAME: &str = "default";

/// Returns the class of the Ray actor that the process runs, or the role that the user gave it in torchelastic
/// (`--role`).
pub fn process_role(log: &RankLog) -> Option<String> {
    let title = log.properties.get("command_line").map(String::as_str);
    let of_launcher = || {
        log.properties
            .get("env.ROLE_NAME")
            .filter(|role| *role != WITHOUT_NAME)
    };
    title
        .and_then(ray_actor)
        .or_else(|| of_launcher().map(String::as_str))
        .filter(|role| !role.is_empty())
        .map(str::to_owned)
}

/// Returns the class in a title such as `ray::TrainWorker.execute`. A function has no class. A task that its caller has
/// named, as Ray Train does, shows that name instead, which does not begin like a class.
fn ray_actor(title: &str) -> Option<&str> {
    let title = title.trim_start_matches(['\'', '"']).strip_prefix(RAY)?;
    let (class, _method) = title.split_once('.')?;
    class
        .trim_start_matches('_')
        .starts_with(char::is_uppercase)
        .then_some(class)
}

#[cfg(test)]
mod tests {
    use super::ray_actor;

    #[test]
    fn titles_of_actors_name_their_class() {
        assert_eq!(ray_actor("ray::TrainWorker.execute()"), Some("TrainWorker"));
        assert_eq!(ray_actor("'ray::TrainWorker.execute()'"), Some("TrainWorker"));
        assert_eq!(ray_actor("ray::train"), None);
        assert_eq!(ray_actor("ray::execute._setup_torch_process_group"), None);
        assert_eq!(ray_actor("python train.py"), None);
    }
}
